/** The kernel's notifications of changes by others. */
import { exec as execWithCallback } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { loadAddon } from '../../src/kernel/addon.ts';
import type { Committer, Kernel, WatchedTable } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { replies } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import type { Planner } from '../../src/modes/planner.ts';
import type { SyncEvent } from '../../src/sync/events.ts';
import { Watch } from '../../src/sync/watch.ts';
import { systemClock } from '../../src/time/clock.ts';
import { hangsMs } from '../lab/pace.ts';
import { createKernel, createNamespace, type Namespace } from './namespace.ts';
import { addressSet, applied, batch } from './ops.ts';

const exec = promisify(execWithCallback);
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

/** How often threads of watches have waited. `cat` skips those that end. */
async function wakeups(): Promise<number> {
  const { stdout } = await exec(`cat /proc/${process.pid}/task/*/status || true`);
  const counts = stdout.matchAll(
    /^Name:\tfairlead-watch[\s\S]*?^voluntary_ctxt_switches:\t(\d+)/gm,
  );
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
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
    await told.nft('add', 'counter', 'ip', 't', 'c');
    await told.until(3);
    await sleep(60);
    await told.nft('flush', 'ruleset');
    await told.until(4);
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

  it('does not wake its thread for our own changes, and loses no message to them', async () => {
    const told = await Told.start();
    const other = { family: NFPROTO.IPv6, table: 'v6', comment: '' } as const;
    const set = { ...inTable, set: 's' } as const;
    const count = 50_000;
    const entries = new Uint8Array(Uint32Array.from({ length: count }, (_, i) => i + 1).buffer);
    const packed = { shape: 0, keyLength: 4, dataLength: 0, count, entries };
    await applied(told.kernel, { kind: 'setAdd', ...addressSet, ...set });
    await told.nft('add', 'chain', 'ip', 't', 'd');
    await told.until(1);
    const before = await wakeups();
    for (let i = 0; i < 10; i += 1) {
      await applied(told.kernel, { kind: 'tableAdd', ...other });
      const elements = { kind: 'elementsAdd', ...set, ...packed } as const;
      await applied(told.kernel, { kind: 'tableDelete', ...other }, elements);
      await applied(told.kernel, { kind: 'setFlush', ...set });
      // As long as it would rest.
      await sleep(5);
    }
    // It may have had its last rest during this time.
    expect((await wakeups()) - before).toBeLessThan(5);
    expect(told.all).toHaveLength(1);
    await told.nft('delete', 'chain', 'ip', 't', 'd');
    await told.until(2);
    expect(told.all[1]?.program).toBe('nft');
  });

  it('reports changes from a port that was ours', async () => {
    const { path: netns } = await createNamespace();
    const addon = loadAddon();
    const sockets = [new addon.Socket({ netns }), new addon.Socket({ netns })] as const;
    let count = 0;
    const watch = new addon.Watch({ netns, tables: [inTable] }, () => {
      count += 1;
    });
    onTestFinished(() => [...sockets, watch].forEach((one) => void one.close()));
    const ports: number[] = [];
    const table = { kind: 'tableAdd', ...inTable, comment: '' } as const;
    let chains = 0;
    const commit = async (socket: 0 | 1, times: number): Promise<void> => {
      chains += 1;
      const chain = { kind: 'chainAdd', ...inTable, chain: `c${chains}`, comment: '' } as const;
      const answer = await sockets[socket].submit(batch(table, chain));
      for (const one of readRecords(replies, answer)) {
        if (one.kind === 'committed') ports[socket] = one.port;
      }
      // Longer than the rest after a report.
      await sleep(60);
      await vi.waitUntil(() => count >= times, hangsMs);
      expect(count).toBe(times);
    };
    await vi.waitUntil(() => count === 1, hangsMs);
    await commit(0, 2);
    watch.ignore(ports[0]!);
    await commit(0, 2);
    await commit(1, 3);
    watch.ignore(ports[1]!);
    await commit(1, 3);
    await commit(0, 4);
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
      { planner, kernel, clock: systemClock, observer: (event) => events.push(event) },
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
