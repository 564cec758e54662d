import { describe, expect, it } from 'vitest';
import type { ApplyResult } from '../../../src/kernel/kernel.ts';
import { NF_INET, NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { BatchSize } from '../../../src/sync/batch-size.ts';
import type { SyncEvent } from '../../../src/sync/events.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/nftables/forwardings.ts';
import { quiet, ToyKernel } from './double.ts';
import { World } from './world.ts';

/** Takes a millisecond for each `bytesPerMs` of a batch. */
class SlowKernel extends ToyKernel {
  bytesPerMs = 1500;
  after: (ms: number, call: () => void) => void = (_, call) => call();

  override async apply(bytes: Uint8Array): Promise<ApplyResult> {
    const ms = bytes.length / this.bytesPerMs;
    await new Promise<void>((resolve) => this.after(ms, resolve));
    return super.apply(bytes);
  }
}

/** Has no memory for more bytes in one batch. */
class SmallKernel extends FakeKernel {
  bytesMax = Number.POSITIVE_INFINITY;

  override async apply(bytes: Uint8Array): Promise<ApplyResult> {
    if (bytes.length <= this.bytesMax) return super.apply(bytes);
    throw Object.assign(new Error('out of memory'), { code: 'ENOMEM' });
  }
}

function sizesOf(world: World<SlowKernel>): number[] {
  return world
    .kinds('committed')
    .map((event: SyncEvent) => (event.kind === 'committed' ? event.bytes : 0));
}

async function started(): Promise<World<SlowKernel>> {
  const kernel = new SlowKernel();
  const world = new World({ batchBytesMax: 200_000 }, kernel);
  kernel.after = (ms, call) => world.clock.after(ms, call);
  world.addServices(0, 4000);
  world.synced();
  world.run();
  await world.clock.pass(20_000);
  return world;
}

/** The times of all batches until `totalKiB` are in force. Each KiB takes a millisecond. */
function timesOf(size: BatchSize, totalKiB: number, least: number): number[] {
  const found: number[] = [];
  for (let left = totalKiB; left > 0; left -= size.bytesMax / 1024) {
    const tookMs = least + size.bytesMax / 1024;
    found.push(tookMs);
    size.committed(size.bytesMax, tookMs);
  }
  return found;
}

describe('the size of batches', () => {
  it('shrinks to what the kernel applies in a fortieth of a second, and grows again', async () => {
    const world = await started();
    // The second was being planned when the first turned out to take long.
    const [first, , ...rest] = sizesOf(world);
    const { bytesPerMs } = world.kernel;
    expect(first).toBeGreaterThan(80 * bytesPerMs);
    const second = rest.slice(0, -1);
    expect(Math.max(...second)).toBeLessThan(30 * bytesPerMs);
    expect(Math.min(...second)).toBeGreaterThan(22 * bytesPerMs);
    world.kernel.bytesPerMs = 100_000;
    for (let w = 0; w < 4000; w += 1) world.setEndpoints(`web-${w}`, `10.245.0.${w % 250}`);
    await world.clock.pass(20_000);
    expect(Math.max(...sizesOf(world).slice(-4))).toBeGreaterThan(first! * 0.9);
  });

  it('is not much larger for what is dear after some that was cheap', async () => {
    const world = await started();
    const change = async (services: number, bytesPerMs: number, last: number) => {
      world.kernel.bytesPerMs = bytesPerMs;
      const { length } = sizesOf(world);
      for (let w = 0; w < services; w += 1) world.setEndpoints(`web-${w}`, `10.245.0.${last}`);
      await world.clock.pass(20_000);
      return sizesOf(world).slice(length);
    };
    const cheap = await change(3000, 100_000, 1);
    expect(cheap.length).toBeGreaterThan(2);
    const dear = await change(3000, 1500, 2);
    // With each cheap one by a quarter, and not to twice its size.
    expect(dear[0]! / 1500).toBeLessThan(130);
  });

  it.each([100, 250])('is not so small that most time goes to the %i ms of each', (leastMs) => {
    const size = new BatchSize(1024 * 1024);
    // Batches of 32 KiB would take 42 and 90 s.
    const long = timesOf(size, 10_240, leastMs);
    const sumMs = long.reduce((sum, tookMs) => sum + tookMs, 0);
    expect(sumMs).toBeLessThan(2 * 10_240 + 60 * leastMs);
    expect(Math.max(...long.slice(8))).toBeLessThan(2.5 * leastMs);
    expect(timesOf(size, 10_240, 0).at(-1)).toBeLessThan(45);
  });

  it('does not take the time of one that waits for another program for what each takes', () => {
    const size = new BatchSize(1024 * 1024);
    size.committed(200, 20_000);
    expect(Math.max(...timesOf(size, 1024, 0))).toBeLessThan(45);
    for (let i = 0; i < 500; i += 1) size.committed(200, i % 50 === 0 ? 2000 : 2);
    expect(Math.max(...timesOf(size, 1024, 0))).toBeLessThan(60);
  });

  it('does not split the replacement of a table with hooks, unless the kernel has refused it', async () => {
    const kernel = new SmallKernel();
    const start = async (): Promise<World<SmallKernel>> => {
      const world = new World({ batchBytesMax: 2000, sliceMs: 0 }, kernel, (environment) =>
        nftablesMode.planner(config, environment),
      );
      world.addServices(0, 100);
      world.synced();
      world.run();
      await settled();
      return world;
    };
    // A slice is one piece of work here, so that there are many.
    const settled = async (): Promise<void> => {
      for (let i = 0; i < 40; i += 1) await quiet();
    };
    const services = (): number => kernel.elements(NFPROTO.IPv4, 'fairlead', 'services').length;
    const table = { family: NFPROTO.IPv4, table: 'fairlead' };
    const hook = { type: 'filter', hook: NF_INET.LOCAL_IN, priority: 0 };
    const replace = batch(
      { kind: 'tableDelete', ...table },
      { kind: 'tableAdd', ...table, comment: '' },
      { kind: 'baseChainAdd', ...table, chain: 'a', ...hook, policy: 1, comment: '' },
    );
    const world = await start();
    expect(kernel.commits).toBeGreaterThan(3);
    kernel.foreign(replace);
    let { commits } = kernel;
    world.sync.audit.verify();
    await settled();
    expect([kernel.commits - commits, services()]).toEqual([1, 100]);
    await world.stop();
    kernel.foreign(replace);
    ({ commits } = kernel);
    const next = await start();
    expect([kernel.commits - commits, services()]).toEqual([1, 100]);
    kernel.bytesMax = 16_000;
    kernel.foreign(replace);
    next.sync.audit.verify();
    for (let i = 0; i < 20; i += 1) {
      await settled();
      await next.clock.pass(1000);
    }
    expect(services()).toBe(100);
    await next.stop();
  });
});
