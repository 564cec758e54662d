import { describe, expect, it } from 'vitest';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { type AppliedChange, InForce } from '../../../src/sync/in-force.ts';
import { TrackedForwardings } from '../../../src/sync/tracked.ts';
import { context, service } from '../state/build.ts';

const [web] = resolve(service({ name: 'web' }), [], context) as [Forwarding];
const later: Forwarding = { ...web, affinityTimeoutSeconds: 10 };

interface Published extends Pick<AppliedChange, 'previous' | 'next'> {
  readonly key: string;
}

class Rig {
  readonly published: Published[] = [];
  readonly tracked = new TrackedForwardings();
  readonly inForce = new InForce(this.tracked, ({ record: { key }, previous, next }) => {
    this.published.push({ key, previous, next });
  });

  set(key: string, next: Forwarding | undefined): void {
    this.inForce.set(this.tracked.at(key), next, undefined);
  }

  lastKnown(key: string): Forwarding | undefined {
    return this.inForce.lastKnown(this.tracked.at(key));
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
    expect(rig.tracked.inForce.size).toBe(0);
  });

  it('has the previous state until a repair has succeeded, however often one fails', () => {
    const rig = new Rig();
    rig.set('web', web);
    rig.set('api', web);
    rig.inForce.beginRepair();
    rig.set('web', later);
    expect(rig.tracked.inForce.get('web')).toBe(later);
    rig.inForce.beginRepair();
    expect(rig.tracked.inForce.size).toBe(0);
    expect(rig.lastKnown('web')).toBe(later);
    expect(rig.lastKnown('api')).toBe(web);
    rig.set('web', web);
    rig.set('api', web);
    rig.inForce.endRepair();
    expect(rig.published.slice(2)).toEqual([
      { key: 'web', previous: web, next: later },
      { key: 'web', previous: later, next: web },
      { key: 'api', previous: web, next: web },
    ]);
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
