import { describe, expect, it } from 'vitest';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { TrackedForwardings } from '../../../src/sync/tracked.ts';
import { context, service } from '../state/build.ts';
import { ToyClock } from './double.ts';

const [web] = resolve(service({ name: 'web' }), [], context) as [Forwarding];
const clock = new ToyClock();
const later: Forwarding = { ...web, affinityTimeoutSeconds: 10 };

describe('the record of what is in force', () => {
  it('returns the previous state', () => {
    const tracked = new TrackedForwardings('IPv4', clock);
    const record = tracked.at('web');
    expect(tracked.setInForce(record, web)).toBe(undefined);
    expect(tracked.setInForce(record, later)).toBe(web);
    expect(tracked.setInForce(record, undefined)).toBe(later);
    expect(tracked.inForce.size).toBe(0);
  });

  it('has the previous state until a repair has succeeded, however often one fails', () => {
    const tracked = new TrackedForwardings('IPv4', clock);
    const [first, second] = [tracked.at('web'), tracked.at('api')];
    tracked.setInForce(first, web);
    tracked.setInForce(second, web);
    tracked.beginRepair();
    expect(tracked.setInForce(first, later)).toBe(web);
    expect(tracked.inForce.get('web')).toBe(later);
    tracked.beginRepair();
    expect(tracked.inForce.size).toBe(0);
    expect(first.before).toBe(later);
    expect(second.before).toBe(web);
    expect(tracked.setInForce(first, web)).toBe(later);
    expect(tracked.setInForce(second, web)).toBe(web);
    expect(tracked.endRepair(first)).toBe(undefined);
    expect(first.before).toBe(undefined);
  });

  it('is deleted if a repair has not set it, and is kept until that is known', () => {
    const tracked = new TrackedForwardings('IPv4', clock);
    const record = tracked.at('web');
    tracked.setInForce(record, web);
    tracked.beginRepair();
    tracked.drop(record);
    expect(tracked.get('web')).toBe(record);
    expect(tracked.endRepair(record)).toBe(web);
    expect(tracked.endRepair(record)).toBe(undefined);
    tracked.drop(record);
    expect(tracked.get('web')).toBe(undefined);
  });
});

describe('the status of what is desired', () => {
  it('says since when it waits, is in force, or is set aside', async () => {
    const tracked = new TrackedForwardings('IPv4', clock);
    const record = tracked.at('web');
    const startMs = clock.now();
    const statusAfter = async (step: () => void) => {
      await clock.pass(10);
      step();
      return [record.status, record.sinceMs - startMs];
    };
    const inForce = (desired: Forwarding | undefined): void => {
      tracked.setInForce(record, web);
      tracked.acknowledged(record, desired);
    };
    expect(await statusAfter(() => tracked.setDesired(record, web))).toEqual(['waiting', 0]);
    expect(await statusAfter(() => inForce(undefined))).toEqual(['waiting', 0]);
    expect(await statusAfter(() => inForce(web))).toEqual(['in force', 30]);
    expect(await statusAfter(() => tracked.setDesired(record, web))).toEqual(['in force', 30]);
    expect(await statusAfter(() => tracked.setDesired(record, later))).toEqual(['waiting', 50]);
    expect(await statusAfter(() => inForce(web))).toEqual(['waiting', 50]);
    expect(await statusAfter(() => inForce(later))).toEqual(['in force', 70]);
    expect(await statusAfter(() => tracked.beginRepair())).toEqual(['waiting', 80]);
    const setAside = () => tracked.setStatus(record, 'set aside');
    expect(await statusAfter(setAside)).toEqual(['set aside', 90]);
    for (const step of [
      () => inForce(later),
      () => tracked.setDesired(record, web),
      () => tracked.beginRepair(),
    ]) {
      expect(await statusAfter(step)).toEqual(['set aside', 90]);
    }
  });
});
