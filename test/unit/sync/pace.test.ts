import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ApplyResult } from '../../../src/kernel/kernel.ts';
import { Pace, type Urgency } from '../../../src/sync/pace.ts';
import type { SyncSettings } from '../../../src/sync/settings.ts';
import { service } from '../state/build.ts';
import { ToyKernel } from './double.ts';
import { endpointsOf, World } from './world.ts';

describe('the pace of syncs', () => {
  it('is a fifth of the time, unless rests would be longer than allowed', () => {
    const costs = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 20, maxLength: 100 });
    fc.assert(
      fc.property(costs, fc.constantFrom(200, 750, 1e9), (all, longestRestMs) => {
        let now = 1000;
        // Times are sums of fractions.
        const roundingMs = 1e-6;
        const pace = new Pace({ clock: { now: () => now }, longestRestMs });
        let spentMs = 0;
        const startMs = now;
        for (const costMs of all) {
          const beganMs = now;
          now += costMs;
          spentMs += costMs;
          pace.spent({ beganMs, costMs, urgency: 'first', isAll: true });
          const restMs = pace.dueMs('all') - now;
          expect(restMs).toBeLessThanOrEqual(longestRestMs + roundingMs);
          now += restMs;
        }
        if (longestRestMs === 1e9) expect(spentMs / (now - startMs)).toBeCloseTo(0.2, 5);
        else {
          const longestMs = spentMs + all.length * longestRestMs;
          expect(now - startMs).toBeLessThanOrEqual(longestMs + roundingMs);
        }
      }),
    );
  });

  it('saves nothing at quiet times, but urgent syncs may take work in advance', () => {
    let now = 0;
    const pace = new Pace({ clock: { now: () => now }, longestRestMs: 1e9 });
    const sync = (costMs: number, of: Urgency): void => {
      const beganMs = now;
      now += costMs;
      pace.spent({ beganMs, costMs, urgency: of, isAll: of === 'all' });
    };
    sync(0, 'all');
    now = 1_000_000;
    // Of each 100 ms, a fifth is the share of syncs, and 80 ms are owed.
    for (const [urgency, syncs] of [
      ['all', 1],
      ['small', 7],
      ['first', 13],
    ] as const) {
      now += 100_000;
      let begun = 0;
      for (; pace.dueMs(urgency) <= now; begun += 1) sync(100, urgency);
      expect([urgency, begun]).toEqual([urgency, syncs]);
    }
    // However much a sync cost, a more urgent one does not wait after it, nor its kind for long.
    for (const [urgency, next] of [
      ['all', 'small'],
      ['small', 'first'],
      ['first', undefined],
    ] as const) {
      now += 100_000;
      sync(10_000, urgency);
      if (next !== undefined) expect(pace.dueMs(next)).toBeLessThanOrEqual(now);
      expect(pace.dueMs(urgency) - now).toBe(250 / 0.2);
    }
  });
});

/** Each commit takes this time. */
class SlowKernel extends ToyKernel {
  commitMs = 175;
  after: (ms: number, call: () => void) => void = (_, call) => call();

  override async apply(bytes: Uint8Array): Promise<ApplyResult> {
    await new Promise<void>((resolve) => this.after(this.commitMs, resolve));
    return super.apply(bytes);
  }
}

async function started(settings: Partial<SyncSettings> = {}): Promise<World<SlowKernel>> {
  const world = new World({ longestRestMs: 750, ...settings }, new SlowKernel());
  world.kernel.after = (ms, call) => world.clock.after(ms, call);
  world.addServices(0, 10);
  world.synced();
  world.run();
  // A batch in flight at the end of the test needs the clock.
  onTestFinished(() => world.clock.pass(1000));
  await world.clock.pass(20_000);
  return world;
}

/** The endpoints in force, in hexadecimal. */
function held(world: World<SlowKernel>, name: string): string {
  return world.forwarded[`default/${name}:http/TCP`]!;
}

function hexOf(address: string): string {
  return address
    .split('.')
    .map((part) => Number(part).toString(16).padStart(2, '0'))
    .join('');
}

/** Milliseconds until a change of the Service is in force. */
async function timeOf(world: World<SlowKernel>, name: string, address: string): Promise<number> {
  const beganMs = world.clock.now();
  world.setEndpoints(name, address);
  for (let i = 0; !held(world, name).startsWith(hexOf(address)); i += 1) {
    expect(i).toBeLessThan(1000);
    await world.clock.pass(5);
  }
  return world.clock.now() - beganMs;
}

/** Changes a Service every 50 ms. */
async function churn(world: World<SlowKernel>, name: string, seconds: number): Promise<void> {
  for (let i = 0; i < seconds * 20; i += 1) {
    world.setEndpoints(name, `10.250.${i >> 8}.${i & 255}`);
    await world.clock.pass(50);
  }
}

describe('syncs that cost much', () => {
  it('take a fifth of the time, and each change is in force within a second', async () => {
    const world = await started();
    await churn(world, 'web-1', 10);
    const { commits } = world.kernel;
    await churn(world, 'web-1', 20);
    const share = ((world.kernel.commits - commits) * 175) / 20_000;
    expect(share).toBeGreaterThan(0.17);
    expect(share).toBeLessThan(0.23);
    for (let i = 1; i < 30; i += 1) {
      await churn(world, 'web-1', 1);
      expect(await timeOf(world, 'web-1', `10.251.0.${i}`)).toBeLessThanOrEqual(1000 + 175);
    }
  });

  it('do not rest for the first change of a Service', async () => {
    const world = await started();
    expect(await timeOf(world, 'web-1', '10.251.0.1')).toBeLessThanOrEqual(180);
    expect(await timeOf(world, 'web-2', '10.251.0.2')).toBeLessThanOrEqual(180);
    await churn(world, 'web-1', 10);
    // The one that changes all the time rests.
    await timeOf(world, 'web-1', '10.251.0.3');
    expect(await timeOf(world, 'web-1', '10.251.0.4')).toBeGreaterThan(700);
    expect(await timeOf(world, 'web-3', '10.251.0.5')).toBeLessThanOrEqual(2 * 180);
  });

  it('rest also where each change is the first one of a Service', async () => {
    const world = await started();
    const { commits } = world.kernel;
    for (let i = 0; i < 400; i += 1) {
      world.setEndpoints(`web-${i % 10}`, `10.250.${i >> 8}.${i & 255}`);
      await world.clock.pass(101);
    }
    expect(((world.kernel.commits - commits) * 175) / 40_400).toBeLessThan(0.3);
  });

  it('do not hold up a namespace that costs little, however many Services of another change', async () => {
    const world = await started({ longestRestMs: 200 });
    world.kernel.commitMs = 20;
    world.addServices(10, 100);
    const names = { namespace: 'quiet', name: 'web' };
    world.setService(service({ ...names, clusterIPs: ['10.96.9.9'] }));
    let [pending, changedMs, longestMs] = ['', 0, 0];
    for (let i = 0; i < 1600; i += 1) {
      if (i % 2 === 0) world.setEndpoints(`web-${i % 100}`, `10.250.${i >> 8}.${i & 255}`);
      if (i % 40 === 0) {
        expect(pending).toBe('');
        const at = `10.251.${i >> 8}.${i & 255}`;
        const changed = { key: 'quiet/web-1', service: 'quiet/web' };
        world.state.apply({ kind: 'slice', slice: { ...endpointsOf('web', at), ...changed } });
        world.loop.wake();
        [pending, changedMs] = [hexOf(at), world.clock.now()];
      }
      await world.clock.pass(5);
      if (!world.forwarded['quiet/web:http/TCP']?.startsWith(pending)) continue;
      if (pending !== '') longestMs = Math.max(longestMs, world.clock.now() - changedMs);
      pending = '';
    }
    // The batch in flight, and its own.
    expect(longestMs).toBeLessThanOrEqual(2 * 20 + 5);
  });

  it('leave large changes out that rest when a small one goes first, but not what loses endpoints', async () => {
    const world = await started();
    const many = (round: number, count: number): void => {
      const addresses = Array.from({ length: count }, (_, i) => {
        return `10.${240 + round}.${i >> 8}.${i & 255}`;
      });
      world.state.apply({ kind: 'slice', slice: endpointsOf('web-9', ...addresses) });
      world.loop.wake();
    };
    const first = (): string => held(world, 'web-9').slice(0, 4);
    many(0, 1000);
    await world.clock.pass(10_000);
    many(1, 1000);
    await world.clock.pass(200);
    many(2, 1000);
    expect(await timeOf(world, 'web-1', '10.251.0.1')).toBeLessThanOrEqual(180);
    expect(first()).toBe('0af1');
    await world.clock.pass(1000);
    expect(first()).toBe('0af2');
    await world.clock.pass(1100);
    for (const name of ['web-1', 'web-1']) await timeOf(world, name, '10.251.0.2');
    many(2, 999);
    await world.clock.pass(400);
    expect(held(world, 'web-9').length).toBe(999 * 16);
  });
});
