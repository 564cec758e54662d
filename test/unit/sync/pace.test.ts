import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ApplyResult } from '../../../src/kernel/kernel.ts';
import type { Cause } from '../../../src/sync/cause.ts';
import { Changes } from '../../../src/sync/changes.ts';
import type { Handover } from '../../../src/sync/handover.ts';
import { Pace, type Urgency } from '../../../src/sync/pace.ts';
import type { Parts } from '../../../src/sync/parts.ts';
import type { SyncSettings } from '../../../src/sync/settings.ts';
import { Tracked } from '../../../src/sync/tracked.ts';
import { forwarding, pool } from '../modes/nftables/forwardings.ts';
import { service } from '../state/build.ts';
import { SteppedClock, ToyKernel } from './double.ts';
import { endpointsOf, testSettings, World } from './world.ts';

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
      for (; begun < 100 && pace.dueMs(urgency) <= now; begun += 1) sync(100, urgency);
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

/** What is planned of a Service, and what is desired: endpoints of pools, or nothing. */
const [few, more, others, most] = [
  [0, 1],
  [0, 1100],
  [1, 1101],
  [0, 1101],
].map(([from = 0, to = 0]) => {
  return forwarding('web', pool(...Array.from({ length: to - from }, (_, i) => from + i)));
});
const forms = {
  small: [few, undefined],
  comes: [undefined, more],
  grows: [more, most],
  moves: [more, others],
  shrinks: [most, more],
  leaves: [more, undefined],
} as const;

/** Changes of Services in namespace `ns`, or in another one. */
function changes(settings: Partial<SyncSettings> = {}) {
  const clock = new SteppedClock();
  const all = { ...testSettings, longestRestMs: 1e9, ...settings };
  const plan: Handover['plan'] = ({ next, record }) => {
    record.planned = next;
  };
  const changes = new Changes({ clock, settings: all } as unknown as Parts, { plan } as Handover);
  const mark = (what: string): void => {
    const [form, name] = what.split(' of ') as [keyof typeof forms, string];
    const record = new Tracked('IPv4', `${name.includes('/') ? name : `ns/${name}`}/TCP`);
    [record.planned, record.desired] = forms[form];
    changes.mark(record, undefined);
  };
  /** Those that it plans; others may come after each. */
  const sync = (costMs: number, come: readonly string[] = [], isOfAll = false): string[] => {
    const [beganMs, coming, planned] = [clock.ms, [...come], [] as string[]];
    changes.begin(isOfAll);
    for (const record of changes.due()) {
      changes.plan(record);
      planned.push(record.key.replace(/^ns\/|\/TCP$/g, ''));
      if (coming.length > 0) mark(coming.shift()!);
    }
    clock.ms += costMs;
    changes.spent(costMs, beganMs);
    return planned;
  };
  const restMs = (): number => Math.round(Math.max(0, changes.notBeforeMs - clock.ms));
  return { changes, clock, mark, restMs, sync };
}

describe('changes of Services', () => {
  // What is owed rests five times as long.
  it.each([
    ['small of web', 1250],
    ['small of often', 750],
    ['grows of web', 250],
    ['shrinks of web', 250],
    ['small of web, small of often', 750],
    ['small of often, small of web', 750],
    ['small of web, grows of large', 250],
    ['grows of large, small of web', 250],
    ['grows of large, small of often', 250],
  ])('%s: make %i ms owed, as the least urgent one does', (all, owedMs) => {
    const { mark, restMs, sync } = changes();
    mark('small of often');
    sync(10);
    const [first, ...others] = all.split(', ');
    mark(first!);
    sync(10_000, others, true);
    mark('grows of last');
    expect(restMs()).toBe(owedMs * 5);
  });

  // 1250 ms are owed, of which small ones may take 500 in advance, and those that go first 1000.
  it.each([
    ['', 1250],
    ['small of quiet/web', 1250],
    ['small of quiet/often', 3750],
    ['small of other', 3750],
    ['comes of other', 6250],
    ['grows of other', 6250],
    ['moves of other', 6250],
    ['shrinks of other', 1250],
    ['leaves of other', 1250],
    ['shrinks of quiet/often', 6250],
    ['grows of large, small of other', 3750],
    ['grows of other, small of quiet/web', 1250],
    ['small of quiet/web, small of other', 1250],
    ['shrinks of large, small of other', 1250],
    ['shrinks of other, grows of another', 1250],
  ])('%s: rest %i ms, as long as the most urgent one', (all, expectedMs) => {
    const { mark, restMs, sync } = changes();
    mark('small of web');
    sync(10_000);
    mark('small of quiet/often');
    sync(1);
    for (const one of all.split(', ')) if (one !== '') mark(one);
    expect(restMs()).toBe(expectedMs);
  });

  it('of many elements wait for their own time, or for a sync that one of them makes urgent', () => {
    const { changes: all, clock, mark, restMs, sync } = changes();
    mark('small of web');
    sync(10_000);
    mark('grows of large');
    mark('small of quiet/a');
    expect(sync(0)).toEqual(['quiet/a']);
    mark('small of quiet/b');
    // One that goes first comes while those of many elements are left out.
    expect(sync(0, ['shrinks of larger'])).toEqual(['quiet/b']);
    expect(restMs()).toBe(1250);
    expect(sync(0).sort()).toEqual(['large', 'larger']);
    expect(all.backlog(0).waiting).toBe(0);
    mark('grows of large');
    expect(restMs()).toBe(6250);
    expect(sync(0)).toEqual([]);
    expect(sync(0, [], true)).toEqual(['large']);
    mark('grows of large');
    clock.ms += 6250;
    expect(sync(0)).toEqual(['large']);
  });

  it('of many elements take nothing of what small ones of their namespace may in advance', () => {
    const { mark, restMs, sync } = changes();
    for (const [form, name] of [
      ['grows', 'large'],
      ['small', 'quiet/web'],
    ]) {
      mark(`${form} of ${name}`);
      sync(10_000, [], true);
    }
    mark('small of other');
    expect(restMs()).toBe(1250);
  });

  it('keep their urgency where a sync ends before it comes to them', () => {
    const { changes: all, clock, mark, restMs, sync } = changes();
    mark('small of web');
    sync(10_000);
    for (const one of ['small of quiet/a', 'small of quiet/b']) mark(one);
    for (const record of all.due()) {
      all.plan(record);
      break;
    }
    all.spent(0, clock.ms);
    expect(restMs()).toBe(1250);
  });

  it('are planned for a second, and after its rest all that is left', () => {
    const { changes: all, clock, mark, restMs, sync } = changes();
    mark('small of web');
    sync(10_000);
    for (const one of ['small of quiet/a', 'small of quiet/b', 'grows of large']) mark(one);
    all.begin(false);
    for (const record of all.due()) {
      all.plan(record);
      clock.ms += 1000;
    }
    all.rest(clock.ms + 10);
    expect([all.isCut, restMs()]).toEqual([true, 10]);
    expect(sync(0).sort()).toEqual(['large', 'quiet/b']);
    expect(all.isCut).toBe(false);
  });

  it.each([
    [{ minSyncPeriodMs: 100 }, 10],
    [{ longestRestMs: 0 }, 10],
    [{ longestRestMs: 1 }, 10],
    [{ longestRestMs: 20 }, 20],
  ])('rest as %j says', (settings, expectedMs) => {
    const { changes: all, clock, mark, restMs, sync } = changes(settings);
    mark('small of web');
    sync(10_000);
    all.rest(clock.ms + 10);
    mark('grows of large');
    expect(restMs()).toBe(expectedMs);
  });

  it.each([
    ['small of quiet/a', 750],
    ['grows of large, small of quiet/a', 50],
  ])('rest no longer than since a sync left nothing: %s, %i ms', (all, expectedMs) => {
    const { clock, mark, restMs, sync } = changes({ longestRestMs: 750 });
    mark('small of web');
    sync(10_000);
    clock.ms += 700;
    for (const one of all.split(', ')) mark(one);
    expect(sync(0)).toEqual(['quiet/a']);
    mark('grows of larger');
    expect(restMs()).toBe(expectedMs);
  });

  it.each([
    [0, 1000, 0],
    [0, 1001, 0],
    [100, 1100, 0],
    [100, 1101, 0],
    [100, 0, 1101],
  ])(
    'with a least period of %i ms are behind when they have waited longer than a sync and it',
    (minSyncPeriodMs, waitedMs, damagedMs) => {
      const { changes: all, clock } = changes({ minSyncPeriodMs });
      clock.ms = 5000;
      const cause = { receivedMs: clock.ms - waitedMs } as Cause;
      all.mark(Object.assign(new Tracked('IPv4', 'ns/web/TCP'), { desired: few }), cause);
      const longestMs = Math.max(waitedMs, damagedMs);
      const behindMs = longestMs % 10 === 1 ? longestMs : undefined;
      expect(all.backlog(damagedMs)).toEqual({ waiting: 1, behindMs });
    },
  );
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
});
