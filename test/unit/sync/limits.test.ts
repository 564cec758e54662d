import { describe, expect, it, vi } from 'vitest';
import { type Excess, noLimits, type ServiceLimits } from '../../../src/state/budget.ts';
import { finish } from '../../../src/state/steps.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { Desired } from '../../../src/sync/desired.ts';
import type { SyncEvent } from '../../../src/sync/events.ts';
import type { FamilySync } from '../../../src/sync/family.ts';
import { context, http, ready, service, slice, slicePort } from '../state/build.ts';
import { ToyClock } from './double.ts';

vi.setConfig({ testTimeout: 60_000 });

function portsOf(count: number, first = 1000) {
  return Array.from({ length: count }, (_, i) => ({ ...http, name: `p${i}`, port: first + i }));
}

class Rig {
  readonly state = new ClusterState();
  readonly wanted = new Map<string, Forwarding>();
  readonly events: SyncEvent[] = [];
  limits: ServiceLimits = noLimits;
  readonly desired: Desired;

  constructor() {
    const { events, state, wanted } = this;
    const family: Pick<FamilySync, 'family' | 'want'> = {
      family: 'IPv4',
      want: (key, next) => {
        if (next === undefined) wanted.delete(key);
        else wanted.set(key, next);
      },
    };
    this.desired = new Desired({
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

  get excess(): Excess[] {
    return this.events.flatMap((event) => (event.kind === 'over-limit' ? [event.excess] : []));
  }
}

describe('a Service over its limits', () => {
  it('is served in part, told once until that changes, and counted while it is', () => {
    const rig = new Rig();
    rig.limits = { ...noLimits, frontends: 5 };
    rig.set(service({ ports: portsOf(8) }));
    rig.refresh();
    rig.refresh();
    expect(rig.wanted.size).toBe(5);
    expect(rig.desired.overLimit).toBe(1);
    expect(rig.excess).toEqual([{ family: 'IPv4', what: 'frontends', asked: 8, limit: 5 }]);

    rig.set(service({ ports: portsOf(9) }));
    rig.refresh();
    expect(rig.excess.map(({ asked }) => asked)).toEqual([8, 9]);

    rig.set(service({ ports: portsOf(5) }));
    rig.refresh();
    expect(rig.desired.overLimit).toBe(0);
    expect(rig.excess).toHaveLength(2);

    rig.set(service({ ports: portsOf(9) }));
    rig.refresh();
    rig.state.apply({ kind: 'service-gone', key: 'ns/web' });
    rig.refresh();
    expect(rig.desired.overLimit).toBe(0);
    expect(rig.wanted.size).toBe(0);
  });
});

describe('a Service of 20,000 ports', () => {
  it('is handed over at once, and no step takes long', () => {
    const rig = new Rig();
    const ports = portsOf(20_000).map(({ name }) => slicePort(name, 80));
    const endpoints = { '10.0.0.1': ready, '10.0.0.2': ready, '10.0.0.3': ready };
    rig.state.apply({ kind: 'slice', slice: slice(endpoints, { ports }) });
    /** Of each step, the fastest of all rounds: what else runs here only ever adds. */
    const stepMs: number[] = [];
    let longestMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 10 && (round < 2 || longestMs >= 50); round += 1) {
      rig.set(service({ ports: portsOf(20_000, 1000 + 100 * round) }));
      const steps = rig.desired.refresh('ns/web', 0);
      const spans = new Set<number>();
      for (let i = 0, done = false; !done; i += 1) {
        const startMs = performance.now();
        done = steps.next().done === true;
        stepMs[i] = Math.min(stepMs[i] ?? Number.POSITIVE_INFINITY, performance.now() - startMs);
        const first = rig.wanted.get('ns/web:p0/TCP')?.frontends[0]?.port;
        const last = rig.wanted.get('ns/web:p19999/TCP')?.frontends[0]?.port;
        spans.add(last === undefined ? 0 : last - first!);
      }
      expect([...spans].sort()).toEqual(round === 0 ? [0, 19_999] : [19_999]);
      longestMs = stepMs.reduce((a, b) => Math.max(a, b));
    }
    expect(longestMs).toBeLessThan(50);
  });
});
