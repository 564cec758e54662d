import { describe, expect, it } from 'vitest';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { type AppliedChange, InForce } from '../../../src/sync/in-force.ts';
import { context, service } from '../state/build.ts';

const [web] = resolve(service({ name: 'web' }), [], context) as [Forwarding];
const later: Forwarding = { ...web, affinityTimeoutSeconds: 10 };

class Rig {
  readonly published: Omit<AppliedChange, 'cause'>[] = [];
  readonly inForce = new InForce(({ key, previous, next }) => {
    this.published.push({ key, previous, next });
  });

  set(key: string, next: Forwarding | undefined): void {
    this.inForce.set(key, next, undefined);
  }
}

describe('the record of what is in force', () => {
  it('is published with the previous state', () => {
    const rig = new Rig();
    rig.set('web', web);
    rig.set('web', later);
    rig.set('web', undefined);
    expect(rig.published).toEqual([
      { key: 'web', previous: undefined, next: web },
      { key: 'web', previous: web, next: later },
      { key: 'web', previous: later, next: undefined },
    ]);
    expect(rig.inForce.forwardings.size).toBe(0);
  });

  it('has the previous state until a repair has succeeded, however often one fails', () => {
    const rig = new Rig();
    rig.set('web', web);
    rig.inForce.beginRepair();
    rig.set('web', later);
    expect(rig.inForce.forwardings.get('web')).toBe(later);
    rig.inForce.beginRepair();
    expect(rig.inForce.forwardings.size).toBe(0);
    expect(rig.inForce.lastKnown('web')).toBe(web);
    rig.set('web', later);
    rig.inForce.endRepair();
    expect(rig.inForce.lastKnown('web')).toBe(later);
    expect(rig.published.at(-1)).toEqual({ key: 'web', previous: web, next: later });
  });

  it('is published as deleted if a repair has not set it', () => {
    const rig = new Rig();
    rig.set('web', web);
    rig.inForce.beginRepair();
    rig.inForce.endRepair();
    rig.inForce.endRepair();
    expect(rig.published.slice(1)).toEqual([{ key: 'web', previous: web, next: undefined }]);
  });
});
