import { expect, it } from 'vitest';
import { dryRunOf } from '../../../src/kernel/dry-run.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { Comparisons, compare } from '../../../src/sync/comparison.ts';
import { dryRun } from '../../../src/sync/dry-run.ts';
import { noDrift } from '../../../src/sync/events.ts';
import { Ruleset } from '../../../src/sync/ruleset.ts';
import { noPause } from '../../../src/time/pacer.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { clusterIP, config, environment, forwarding, pool } from '../modes/nftables/forwardings.ts';
import { ToyClock, ToyKernel, ToyPlanner } from './double.ts';

/** A kernel that holds what it should, and its comparisons. */
class Node {
  readonly clock = new ToyClock();
  readonly kernel = new FakeKernel();
  readonly comparisons: Comparisons;
  readonly #planner = nftablesMode.planner(config, environment);
  readonly #ruleset = new Ruleset();
  readonly #inForce = new Map<string, Forwarding>();
  /** Dumps so far. */
  reads = 0;
  /** A dump takes this long. */
  dumpMs = 10;

  constructor(hasGeneration = true) {
    const { clock, kernel } = this;
    const reader = new Proxy(kernel, {
      get: (_, name: keyof FakeKernel) => {
        if (name === 'dump') return (...args: Parameters<FakeKernel['dump']>) => this.#dump(args);
        const value: unknown = kernel[name];
        return typeof value === 'function' ? value.bind(kernel) : value;
      },
    });
    const options = {
      planner: this.#planner,
      inForce: this.#inForce,
      ...{ clock, kernel: reader, ruleset: this.#ruleset, sliceMs: 1000 },
    };
    this.comparisons = new Comparisons(options, hasGeneration);
  }

  async #dump(args: Parameters<FakeKernel['dump']>) {
    this.reads += 1;
    await this.clock.pass(this.dumpMs);
    return this.kernel.dump(...args);
  }

  async start(): Promise<void> {
    const found = await this.#planner.observe(this.kernel, noPause);
    const repair = await found.restore([], noPause);
    await repair.finish(noPause);
    await this.#commit();
  }

  /** Brings a Service into force. */
  async change(one: Forwarding): Promise<void> {
    this.#planner.change(undefined, one);
    await this.#commit();
    this.#inForce.set(one.key, one);
  }

  async #commit(): Promise<void> {
    const taken = this.#planner.take()!;
    const run = () => taken.apply?.(this.kernel) ?? this.kernel.apply(taken.ops);
    const result = await this.#ruleset.commit(run);
    if (result.kind === 'failed') throw new Error(JSON.stringify(result));
    taken.committed(result);
  }

  /** Resolves to how long it took. */
  async compare(): Promise<number> {
    const beganMs = this.clock.now();
    await this.comparisons.compare();
    return this.clock.now() - beganMs;
  }

  /** Another program changes our table, or another one. */
  meddle(table: string): void {
    const family = NFPROTO.IPv4;
    const ops = batch({ kind: 'tableAdd', family, table, comment: '' });
    this.kernel.foreign(ops);
  }
}

it('what a comparison found serves for a time, whatever we commit', async () => {
  const node = new Node();
  await node.start();
  const first = await node.comparisons.compare();
  expect(first).toMatchObject({ compared: 0, differences: [] });
  await node.change(forwarding('web', pool(1)));
  await node.clock.pass(node.dumpMs);
  expect(await node.comparisons.compare()).toBe(first);
  await node.clock.pass(1e6);
  expect(await node.comparisons.compare()).toMatchObject({ compared: 1, differences: [] });
});

it('what a comparison found serves no longer once others have committed', async () => {
  const node = new Node();
  await node.start();
  const first = await node.comparisons.compare();
  node.meddle('theirs');
  await node.clock.pass(4 * node.clock.now());
  const second = await node.comparisons.compare();
  expect(second).toEqual(first);
  expect(second).not.toBe(first);
  expect(await node.comparisons.compare()).toBe(second);
});

it('a comparison leaves out what we commit while it reads, and reads once', async () => {
  const node = new Node();
  await node.start();
  await node.change(forwarding('web', pool(1)));
  const api = forwarding('api', pool(2), { frontends: [clusterIP('10.96.0.2')] });
  node.clock.after(node.dumpMs / 2, () => node.change(api));
  expect(await node.comparisons.compare()).toEqual({ compared: 1, leftOut: 1, differences: [] });
});

it('each comparison reads the kernel where no generation shows what others change', async () => {
  const node = new Node(false);
  await node.start();
  const first = await node.comparisons.compare();
  await node.clock.pass(4 * node.clock.now());
  expect(await node.comparisons.compare()).not.toBe(first);
});

it.each([
  ['no generation shows what others change', 10, false, () => {}],
  ['others commit all the time', 10, true, (node: Node) => node.meddle('theirs')],
  ['five seconds at most', 2000, false, () => {}],
])('a comparison waits for four times as long as the one before took: %s', async (...how) => {
  const [, dumpMs, has, act] = how;
  const node = new Node(has);
  await node.start();
  node.dumpMs = dumpMs;
  const tookMs = await node.compare();
  expect(tookMs).toBeGreaterThan(0);
  act(node);
  const { reads } = node;
  const asked = node.compare();
  await node.clock.pass(Math.min(5000, 4 * tookMs) - 1);
  expect(node.reads).toBe(reads);
  await node.clock.pass(1);
  await asked;
  expect(node.reads).toBeGreaterThan(reads);
});

it('a dry run counts what a start would write, and writes nothing', async () => {
  const [node, web] = [new Node(), forwarding('web', pool(2))];
  const run = () => dryRun(nftablesMode.planner(config, environment), dryRunOf(node.kernel), [web]);
  const empty = await run();
  expect(empty.different).toEqual(['ns/web']);
  expect(empty.writes.get('tableAdd')).toBe(1);
  await node.start();
  const started = await run();
  const added = { chainAdd: 2, chainFlush: 2, ruleAdd: 3, elementsAdd: 3 };
  expect(Object.fromEntries(started.writes)).toEqual(added);
  expect(started.drift).toEqual({ ...noDrift, missing: 4 });
  expect(empty.drift.missing).toBeGreaterThan(4);
  await node.change(web);
  expect(await run()).toEqual({ drift: noDrift, different: [], writes: new Map() });
});

it.each([
  [0, { compared: 1, leftOut: 0 }],
  [3, { compared: 0, leftOut: 1 }],
  [4, undefined],
])(
  'a reading that a batch has spoilt is made again, three times: %i spoilt',
  async (times, expected) => {
    const [clock, kernel, ruleset] = [new ToyClock(), new ToyKernel(), new Ruleset()];
    const toy = (): Planner => new ToyPlanner(kernel, environment);
    const [before, after] = [forwarding('web', pool(1)), forwarding('web', pool(2))];
    const inForce = new Map([[before.key, before]]);
    for (const [object, text] of [
      ['fixed', 'cidrs 0'],
      ['f ghost', ''],
    ])
      kernel.objects.set(object!, text!);
    let spoilt = 0;
    kernel.readable = async () => {
      if (spoilt < times) kernel.commits += 1;
      if (times > 0 && spoilt === times) inForce.set(after.key, after);
      spoilt += 1;
    };
    const options = {
      planner: { cloneEmpty: toy },
      inForce,
      ...{ clock, kernel, ruleset, sliceMs: 1 },
    };
    const found = await compare(options);
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject(expected);
    const ghost = { forwarding: undefined, drift: { unwanted: 1 }, ops: [expect.anything()] };
    const web = { forwarding: before, drift: { missing: 2 }, ops: [expect.anything()] };
    const all = times === 0 ? [web, ghost] : [ghost];
    expect(found?.differences ?? all).toMatchObject(all);
  },
);
