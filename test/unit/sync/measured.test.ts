/** What events say about time, in a world in which each piece of work takes some. */
import { expect, it } from 'vitest';
import type { Environment } from '../../../src/modes/mode.ts';
import type { Purpose } from '../../../src/sync/events.ts';
import { refusal, ToyClock, ToyKernel, ToyPlanner } from './double.ts';
import { World } from './world.ts';

const [readMs, planMs, commitMs] = [30, 2, 7];

/** With `web-0` … `web-2` in force. */
async function working(): Promise<World> {
  const [clock, kernel] = [new ToyClock(), new ToyKernel()];
  let plannedMs = 0;
  const [apply, now] = [kernel.apply.bind(kernel), clock.now.bind(clock)];
  clock.now = () => now() + plannedMs;
  const passed = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  kernel.readable = () => passed(readMs);
  kernel.apply = async (bytes) => {
    await passed(commitMs);
    return apply(bytes);
  };
  class Planner extends ToyPlanner {
    override change(...args: Parameters<ToyPlanner['change']>): void {
      plannedMs += planMs;
      super.change(...args);
    }
  }
  const plan = (environment: Environment): Planner => new Planner(kernel, environment);
  const world = new World({ sliceMs: 1000 }, kernel, plan, undefined, clock);
  world.addServices(0, 3);
  world.synced();
  world.run();
  await clock.pass(1000);
  return world;
}

/** Of the last sync for this purpose. */
function timesOf(world: World, purpose: Purpose) {
  const last = <T extends { readonly purpose: Purpose }>(all: readonly T[]): T => {
    return all.filter((one) => one.purpose === purpose).at(-1)!;
  };
  const { durationMs, workMs } = last(world.kinds('done'));
  const { applyMs, stages } = last(world.kinds('committed'));
  const { receivedMs = 0, resolvedMs, encodedMs, committedMs } = stages ?? {};
  const since = [resolvedMs, encodedMs, committedMs].map((ms) => ms && ms - receivedMs);
  return { durationMs, workMs, applyMs, since };
}

it('a start takes as long as it reads and writes', async () => {
  const world = await working();
  const since = [0, readMs, readMs + commitMs];
  expect(timesOf(world, 'start')).toEqual({
    ...{ durationMs: commitMs, workMs: commitMs, applyMs: commitMs },
    since,
  });
});

it('a sync takes as long as it plans and writes, since the first of its changes came', async () => {
  const world = await working();
  world.setEndpoints('web-0', '10.245.0.1');
  await world.clock.pass(1);
  for (const name of ['web-1', 'web-2']) world.setEndpoints(name, '10.245.0.2');
  await world.clock.pass(commitMs - 2);
  expect(world.sync.inStepAtMs).toBeLessThan(world.clock.now());
  await world.clock.pass(100);
  const durationMs = 2 * planMs + commitMs;
  expect(timesOf(world, 'changes')).toEqual({
    ...{ durationMs, workMs: durationMs, applyMs: commitMs },
    since: [0, commitMs - 1 + 2 * planMs, 2 * commitMs - 1 + 2 * planMs],
  });
  expect(world.sync.inStepAtMs).toBe(world.clock.now());
});

it('a recovery takes as long as it reads and writes', async () => {
  const world = await working();
  world.kernel.refuse = () => refusal('ENOMEM');
  world.setEndpoints('web-0', '10.245.0.1');
  await world.clock.pass(commitMs);
  world.kernel.refuse = () => undefined;
  await world.clock.pass(1000);
  const times = timesOf(world, 'recovery');
  expect(times).toMatchObject({ durationMs: readMs + commitMs, workMs: commitMs });
});

it('what is deleted later waits ten times as long as its deletion took', async () => {
  const world = await working();
  const { clock, kernel } = world;
  const apply = kernel.apply.bind(kernel);
  const begunMs: number[] = [];
  kernel.apply = async (bytes) => {
    if (!Buffer.from(bytes).includes('o default')) return apply(bytes);
    begunMs.push(clock.now());
    await new Promise<void>((resolve) => void clock.after(300, resolve));
    return apply(bytes);
  };
  for (const name of ['web-0', 'web-1']) {
    world.removeService(name);
    await clock.pass(1500);
  }
  await clock.pass(20_000);
  expect(begunMs).toHaveLength(2);
  const tookMs = 300 + commitMs;
  expect(begunMs[1]! - begunMs[0]!).toBe(tookMs + 10 * tookMs);
});

/** How many turns the event loop gets for each Forwarding, where each piece of work is a slice. */
async function turnsForEach(act: (world: World) => void): Promise<number> {
  const turns = async (services: number): Promise<number> => {
    const world = new World({ sliceMs: 0 });
    let count = 0;
    const { clock } = world;
    const turn = clock.turn.bind(clock);
    clock.turn = () => {
      count += 1;
      return turn();
    };
    world.addServices(0, services);
    world.synced();
    world.run();
    const before = async (): Promise<number> => {
      for (let last = -1; last !== count; ) {
        last = count;
        await clock.pass(0);
      }
      return count;
    };
    const begin = act === start ? 0 : await before();
    act(world);
    const end = await before();
    expect(world.forwarded).toEqual(world.wanted);
    await world.stop();
    return end - begin;
  };
  return ((await turns(60)) - (await turns(20))) / 40;
}

const start = (): void => {};

it.each([
  // Each Service is resolved, brought into the kernel's order, planned, and noted as in force.
  ['a start', start, 4],
  [
    'a sync',
    (world: World) => {
      const names = Array.from({ length: world.state.serviceCount }, (_, i) => `web-${i}`);
      for (const name of names) world.setEndpoints(name, '10.245.0.1');
    },
    3,
  ],
  [
    'a recovery',
    (world: World) => {
      world.kernel.refuse = () => {
        world.kernel.refuse = () => undefined;
        return refusal('ENOMEM');
      };
      world.setEndpoints('web-0', '10.245.0.1');
    },
    3,
  ],
])('%s lets others have turns', async (_, act, expected) => {
  expect(await turnsForEach(act)).toBe(expected);
});
