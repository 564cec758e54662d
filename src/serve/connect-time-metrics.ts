/** Whether connections are translated when they are made, and what is left to the rules. */
import { Gauge, type Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import type { BesideRules, BesideUse, Exclusion } from '../modes/beside.ts';
import type { Family } from '../net/address.ts';
import type { ProgrammedFamily } from '../state/frontends-by-service.ts';
import { type Clock, Pacer } from '../sync/clock.ts';

export interface ConnectTimeFacts {
  readonly clock: Clock;
  /** Whose connections are to be translated now. */
  readonly wanted: () => Config['connectTime'];
  /** Undefined: no pods are to be excluded. */
  readonly exclusion: () => Exclusion | undefined;
  readonly families: () => readonly ProgrammedFamily[];
  /** Undefined: only rules translate connections. */
  readonly beside: (family: Family) => BesideRules | undefined;
}

const states = ['off', 'host', 'all', 'unavailable'] as const;

const sliceMs = 2;

export function connectTimeState({
  beside,
  families,
  wanted,
}: Pick<ConnectTimeFacts, 'beside' | 'families' | 'wanted'>): (typeof states)[number] {
  if (wanted() === 'off') return 'off';
  return families().some(({ family }) => beside(family) !== undefined) ? wanted() : 'unavailable';
}

export function connectTimeMetrics(registry: Registry, facts: ConnectTimeFacts): void {
  const registers = [registry];
  new Gauge({
    name: 'fairlead_connect_time_state',
    help: 'Whose connections are translated when they are made: the state that holds is 1; see --connect-time',
    labelNames: ['state'],
    registers,
    collect() {
      const now = connectTimeState(facts);
      for (const state of states) this.set({ state }, state === now ? 1 : 0);
    },
  });
  useMetric(registry, facts, 'elements', 'Frontends and endpoints in the maps', ({ used }) => used);
  useMetric(
    registry,
    facts,
    'elements_max',
    'The most frontends and endpoints in the maps',
    ({ limit }) => limit,
  );
  excludedMetric(registry, facts);
  new Gauge({
    name: 'fairlead_connect_time_left_to_rules',
    help: 'Ports of Services with frontends that only rules translate, by reason; see --connect-time',
    labelNames: ['ip_family', 'reason'],
    registers,
    async collect() {
      const counts = await Promise.all(facts.families().map((one) => reasons(facts, one)));
      this.reset();
      for (const { family, byReason } of counts) {
        for (const [reason, count] of byReason) this.set({ ip_family: family, reason }, count);
      }
    },
  });
}

function excludedMetric(registry: Registry, { exclusion }: ConnectTimeFacts): void {
  new Gauge({
    name: 'fairlead_connect_time_excluded_pods',
    help: 'Pods that --connect-time-excluded-pods chooses: connections of those whose cgroup is found are left to the rules',
    labelNames: ['cgroup'],
    registers: [registry],
    collect() {
      this.reset();
      const { excluded = 0, pods } = exclusion() ?? {};
      if (pods === undefined) return;
      this.set({ cgroup: 'found' }, excluded);
      this.set({ cgroup: 'missing' }, pods - excluded);
    },
  });
}

function useMetric(
  registry: Registry,
  { beside, families }: ConnectTimeFacts,
  name: string,
  help: string,
  value: (use: BesideUse) => BesideUse['used'],
): void {
  new Gauge({
    name: `fairlead_connect_time_${name}`,
    help: `${help} of connect-time translation`,
    labelNames: ['ip_family', 'map'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { family } of families()) {
        const use = beside(family)?.use;
        if (use === undefined) continue;
        for (const map of ['frontends', 'endpoints'] as const) {
          this.set({ ip_family: family, map }, value(use)[map]);
        }
      }
    },
  });
}

async function reasons({ beside, clock }: ConnectTimeFacts, { family, inForce }: ProgrammedFamily) {
  const byReason = new Map<string, number>();
  const pacer = new Pacer(clock, sliceMs);
  const maps = beside(family);
  for (const forwarding of maps === undefined ? [] : inForce.values()) {
    const reason = maps?.reasonOf?.(forwarding);
    if (reason !== undefined) byReason.set(reason, (byReason.get(reason) ?? 0) + 1);
    if (pacer.spent) await pacer.rest();
  }
  return { family, byReason };
}
