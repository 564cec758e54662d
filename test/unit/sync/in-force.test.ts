import { describe, expect, it } from 'vitest';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { TrackedForwardings } from '../../../src/sync/tracked.ts';
import { context, service } from '../state/build.ts';

const [web] = resolve(service({ name: 'web' }), [], context) as [Forwarding];
const later: Forwarding = { ...web, affinityTimeoutSeconds: 10 };

describe('the record of what is in force', () => {
  it('returns the previous state', () => {
    const tracked = new TrackedForwardings('IPv4');
    const record = tracked.at('web');
    expect(tracked.setInForce(record, web)).toBe(undefined);
    expect(tracked.setInForce(record, later)).toBe(web);
    expect(tracked.setInForce(record, undefined)).toBe(later);
    expect(tracked.inForce.size).toBe(0);
  });

  it('has the previous state until a repair has succeeded, however often one fails', () => {
    const tracked = new TrackedForwardings('IPv4');
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
    const tracked = new TrackedForwardings('IPv4');
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
