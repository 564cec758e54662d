/** The kernel's notifications of changes by others. */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Committer, Kernel, WatchedTable } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import type { Planner } from '../../src/modes/mode.ts';
import type { SyncEvent } from '../../src/sync/events.ts';
import { Watch } from '../../src/sync/watch.ts';
import { systemClock } from '../../src/time/clock.ts';
import { hangsMs } from '../lab/pace.ts';
import { createKernel, createNamespace, type Namespace } from './namespace.ts';
import { applied } from './ops.ts';

const inTable = { family: NFPROTO.IPv4, table: 't' } as const;

class Told {
  readonly namespace: Namespace;
  readonly kernel: Kernel;
  readonly all: (Committer | undefined)[] = [];
  readonly end: () => void;

  private constructor(kernel: Kernel, namespace: Namespace, table: WatchedTable) {
    this.kernel = kernel;
    this.namespace = namespace;
    this.end = kernel.watch([table, { family: NFPROTO.IPv6, table: 'v6' }], {
      changed: (by) => this.all.push(by),
      ended: (error) => expect.unreachable(error.message),
    });
  }

  /** Starts the watch, and drops notifications of earlier events. */
  static async start(table: WatchedTable = inTable): Promise<Told> {
    const { kernel, namespace } = await createKernel();
    await applied(kernel, { kind: 'tableAdd', ...inTable, comment: '' });
    const told = new Told(kernel, namespace, table);
    await told.until(1);
    // Longer than the rest after it.
    await sleep(60);
    told.all.length = 0;
    return told;
  }

  async until(count: number): Promise<void> {
    const endMs = performance.now() + hangsMs;
    while (this.all.length < count && performance.now() < endMs) await sleep(1);
    expect(this.all.length).toBeGreaterThanOrEqual(count);
  }

  nft(...words: string[]): Promise<string> {
    return this.namespace.run('nft', words);
  }
}

describe('a watch of tables', () => {
  it('reports within milliseconds changes by other programs, and which program it was', async () => {
    const told = await Told.start();
    await told.nft('add', 'set', 'ip', 't', 's', '{ type ipv4_addr ; }');
    await told.until(1);
    expect(told.all).toEqual([{ program: 'nft', pid: expect.any(Number) }]);
    await sleep(60);
    await told.nft('add', 'element', 'ip', 't', 's', '{ 10.0.0.1 }');
    await told.until(2);
    await sleep(60);
    await told.nft('flush', 'ruleset');
    await told.until(3);
  });

  it('does not report our own changes, or those of other tables', async () => {
    const told = await Told.start();
    const chain = { ...inTable, chain: 'c', comment: '' };
    await applied(told.kernel, { kind: 'chainAdd', ...chain });
    await told.nft('add', 'table', 'ip', 'u');
    await told.nft('add', 'table', 'ip6', 't');
    await told.nft('add', 'chain', 'ip', 'u', 'c');
    await applied(told.kernel, { kind: 'chainDelete', ...chain });
    await sleep(100);
    expect(told.all).toEqual([]);
    await told.nft('add', 'table', 'ip6', 'v6');
    await told.until(1);
  });

  it('reports, of a table that other programs use too, only what concerns our chains', async () => {
    const told = await Told.start({ ...inTable, chains: ['KUBE-', 'INPUT'] });
    const rule = (chain: string) => told.nft('add', 'rule', 'ip', 't', chain, 'accept');
    await told.nft('add', 'chain', 'ip', 't', 'DOCKER');
    await rule('DOCKER');
    await told.nft('flush', 'chain', 'ip', 't', 'DOCKER');
    await sleep(60);
    expect(told.all).toEqual([]);
    for (const chain of ['INPUT', 'KUBE-SERVICES']) {
      told.all.length = 0;
      await told.nft('add', 'chain', 'ip', 't', chain);
      await told.until(1);
      await sleep(60);
      await rule(chain);
      await told.until(2);
      await sleep(60);
    }
    await told.nft('delete', 'table', 'ip', 't');
    await told.until(3);
  });

  it('reports a burst of changes a few dozen times a second, also if messages are lost', async () => {
    const told = await Told.start();
    await told.nft('add', 'set', 'ip', 't', 's', '{ type ipv4_addr ; }');
    const element = (i: number): string =>
      `add element ip t s { 10.${i >> 16}.${(i >> 8) & 255}.${i & 255} }`;
    const many = Array.from({ length: 40_000 }, (_, i) => element(i)).join('\n');
    const startMs = performance.now();
    await told.namespace.run('nft', ['-f', '-'], many);
    for (let i = 0; i < 20; i += 1) await told.nft('flush', 'set', 'ip', 't', 's');
    await told.until(2);
    await sleep(100);
    expect(told.all.length).toBeLessThanOrEqual((performance.now() - startMs) / 25 + 1);
  });

  it('reports why it cannot begin, and begins once it can', async () => {
    const namespace = await createNamespace();
    const directory = mkdtempSync(join(tmpdir(), 'fairlead-watch-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const netns = join(directory, 'netns');
    const kernel = openKernel({ netns });
    onTestFinished(() => kernel.close());
    const events: SyncEvent[] = [];
    const changes: (Committer | undefined)[] = [];
    let ends = 0;
    const planner = { family: 'IPv4', exposed: [inTable] } as unknown as Planner;
    const watch = new Watch(
      { planner, reader: kernel, clock: systemClock, observer: (event) => events.push(event) },
      {
        changed: (by) => changes.push(by),
        ended: () => {
          ends += 1;
        },
      },
    );
    onTestFinished(() => watch.end());
    watch.update();
    await vi.waitUntil(() => ends > 0, hangsMs);
    const error = expect.objectContaining({ code: 'ENOENT', operation: 'nft.watch' });
    expect(events).toEqual([expect.objectContaining({ kind: 'unwatched', error })]);
    expect(changes).toEqual([]);
    symlinkSync(namespace.path, netns);
    await vi.waitUntil(() => changes.length > 0, hangsMs);
    expect(events.at(-1)).toMatchObject({ kind: 'exposed', tables: [inTable] });
    await namespace.run('nft', ['add', 'table', 'ip', 't']);
    await vi.waitUntil(() => changes.at(-1)?.program === 'nft', hangsMs);
  });

  it('reports nothing after its end', async () => {
    const told = await Told.start();
    told.end();
    await told.nft('flush', 'ruleset');
    await sleep(100);
    expect(told.all).toEqual([]);
  });
});
