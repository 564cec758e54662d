import { describe, expect, it } from 'vitest';
import { noLimits, type ServiceLimits } from '../../../src/state/budget.ts';
import { frontendKey } from '../../../src/state/frontend-key.ts';
import { FrontendOwners } from '../../../src/state/frontend-owners.ts';
import { finish } from '../../../src/state/steps.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { Service } from '../../../src/state/types.ts';
import { Desired } from '../../../src/sync/desired.ts';
import type { SyncEvent } from '../../../src/sync/events.ts';
import type { FamilySync } from '../../../src/sync/family.ts';
import { TrackedForwardings } from '../../../src/sync/tracked.ts';
import { context, portsOf, ready, service, slice, slicePort } from '../state/build.ts';
import { stepsTaken } from '../state/steps-taken.ts';
import { ToyClock } from './double.ts';

class Rig {
  readonly state = new ClusterState();
  readonly tracked = new TrackedForwardings('IPv4', { now: () => 0 });
  readonly events: SyncEvent[] = [];
  /** Keys with which `changed` was called. */
  readonly changed: string[] = [];
  limits: ServiceLimits = noLimits;
  readonly desired: Desired;

  constructor() {
    const { events, state, tracked } = this;
    const family: Pick<FamilySync, 'changed' | 'desired' | 'family' | 'setDesired' | 'track'> = {
      family: 'IPv4',
      desired: tracked.desired,
      changed: ({ key }) => this.changed.push(key),
      track: (key) => tracked.at(key),
      setDesired: (record, next) => tracked.setDesired(record, next),
    };
    this.desired = new Desired({
      owners: new FrontendOwners(),
      state,
      families: [family as FamilySync],
      context: () => ({ ...context, limits: this.limits }),
      clock: new ToyClock(),
      observer: (event) => events.push(event),
    });
  }

  set(of: Service): void {
    this.state.apply({ kind: 'service', service: of });
  }

  refresh(): void {
    finish(this.desired.refresh('ns/web', 0));
  }

  get excess(): string[] {
    return this.events.flatMap((event) => (event.kind === 'over-limit' ? [event.text] : []));
  }
}

describe('a Service that exceeds its limits', () => {
  it('is served in part, reported once until that changes, and counted in the meantime', () => {
    const rig = new Rig();
    rig.limits = { ...noLimits, frontends: 5 };
    rig.set(service({ ports: portsOf(8) }));
    rig.refresh();
    rig.refresh();
    expect(rig.tracked.desired.size).toBe(5);
    expect(rig.desired.overLimit).toBe(1);
    const textOf = (asked: number) => `asks for ${asked} IPv4 frontends, and 5 are the most`;
    expect(rig.excess).toEqual([textOf(8)]);

    rig.set(service({ ports: portsOf(9) }));
    rig.refresh();
    expect(rig.excess).toEqual([textOf(8), textOf(9)]);

    rig.set(service({ ports: portsOf(5) }));
    rig.refresh();
    expect(rig.desired.overLimit).toBe(0);
    expect(rig.excess).toHaveLength(2);

    rig.set(service({ ports: portsOf(9) }));
    rig.refresh();
    rig.state.apply({ kind: 'service-gone', key: 'ns/web' });
    rig.refresh();
    expect(rig.desired.overLimit).toBe(0);
    expect(rig.tracked.desired.size).toBe(0);
  });
});

describe('a Service with many ports', () => {
  const rounds = [1000, 1100];

  /** Renumbers a number of ports, in parts of a number of steps. Returns the work of each part. */
  function parts(count: number, stepsAPart: number): number[] {
    const rig = new Rig();
    const ports = portsOf(count).map(({ name }) => slicePort(name, 80));
    const endpoints = { '10.0.0.1': ready, '10.0.0.2': ready, '10.0.0.3': ready };
    rig.state.apply({ kind: 'slice', slice: slice(endpoints, { ports }) });
    const work: number[] = [];
    for (const first of rounds) {
      rig.set(service({ ports: portsOf(count, {}, first) }));
      const refresh = rig.desired.refresh('ns/web', 0);
      const spans = new Set<number>();
      const step = (): boolean => {
        const done = refresh.next().done === true;
        const from = rig.tracked.desired.get('ns/web:p0/TCP')?.frontends[0]?.port;
        const to = rig.tracked.desired.get(`ns/web:p${count - 1}/TCP`)?.frontends[0]?.port;
        spans.add(to === undefined ? 0 : to - from!);
        return done;
      };
      for (let done = false; !done; ) {
        const part = (): void => {
          for (let i = 0; i < stepsAPart && !done; i += 1) done = step();
        };
        work.push(stepsTaken(part));
      }
      expect([...spans].sort()).toEqual(first === rounds[0] ? [0, count - 1] : [count - 1]);
    }
    return work;
  }

  it('passes its frontends without delay, in small steps', () => {
    const work = parts(2000, 400);
    const all = work.reduce((sum, one) => sum + one);
    expect(Math.max(...work)).toBeLessThan(all / 5);
    const quarter = parts(500, 400).reduce((sum, one) => sum + one);
    expect(all / quarter).toBeLessThan(5);
  });

  it('says of a few in each step that they have changed, and of each one once', () => {
    const rig = new Rig();
    const count = 5000;
    for (const first of rounds) {
      rig.set(service({ ports: portsOf(count, {}, first) }));
      rig.changed.length = 0;
      let most = 0;
      const refresh = rig.desired.refresh('ns/web', 0);
      for (let done: boolean | undefined; !done; ) {
        const before = rig.changed.length;
        done = refresh.next().done;
        most = Math.max(most, rig.changed.length - before);
      }
      expect(new Set(rig.changed).size).toBe(count);
      expect(rig.changed).toHaveLength(count);
      expect(most).toBeLessThanOrEqual(count / 8);
    }
    rig.state.apply({ kind: 'service-gone', key: 'ns/web' });
    rig.changed.length = 0;
    rig.refresh();
    expect([rig.changed.length, rig.tracked.desired.size]).toEqual([count, 0]);
  });

  it('says of a few in each step that another one has lost what it takes', () => {
    const rig = new Rig();
    const count = 1000;
    const of = (name: string, createdMs: number) => {
      const at = { clusterIPs: [`10.96.0.${1 + createdMs}`], externalIPs: ['203.0.113.1'] };
      return service({ ...at, name, createdMs, ports: portsOf(count) });
    };
    rig.set(of('other', 1));
    finish(rig.desired.refresh('ns/other', 0));
    rig.set(of('web', 0));
    rig.changed.length = 0;
    let [lost, most] = [0, 0];
    const refresh = rig.desired.refresh('ns/web', 0);
    for (let done: boolean | undefined; !done; ) {
      done = refresh.next().done;
      const now = rig.changed.filter((key) => key.startsWith('ns/other:')).length;
      [lost, most] = [now, Math.max(most, now - lost)];
    }
    expect(lost).toBe(count);
    expect(most).toBeLessThanOrEqual(count / 8);
  });

  it.each([0, 2])('gives what it loses to another one in parts, and keeps %i ports', (kept) => {
    const rig = new Rig();
    const of = (name: string, createdMs: number, count: number) => {
      const at = { clusterIPs: [`10.96.0.${1 + createdMs}`], externalIPs: ['203.0.113.1'] };
      return service({ ...at, name, createdMs, ports: portsOf(count) });
    };
    for (const one of [of('web', 0, 2000), of('other', 1, 2000)]) {
      rig.set(one);
      finish(rig.desired.refresh(one.key, 0));
    }
    const held = (name: string) => {
      const own = [...rig.tracked.desired].filter(([key]) => key.startsWith(`ns/${name}:`));
      return own.flatMap(([, one]) => one.frontends).filter(({ kind }) => kind === 'externalIP');
    };
    rig.state.apply({ kind: 'service-gone', key: 'ns/web' });
    if (kept > 0) rig.set(of('web', 0, kept));
    rig.changed.length = 0;
    let [left, most] = [2000, 0];
    const refresh = rig.desired.refresh('ns/web', 0);
    for (let done: boolean | undefined; !done; ) {
      done = refresh.next().done;
      const all = [...held('web'), ...held('other')].map(frontendKey);
      expect([all.length, new Set(all).size]).toEqual([2000, 2000]);
      most = Math.max(most, left - held('web').length);
      left = held('web').length;
    }
    expect([left, most <= 512, rig.changed.length]).toEqual([kept, true, 4000 - kept]);
  });
});
