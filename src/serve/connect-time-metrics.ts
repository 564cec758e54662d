/** Whether connect-time translation is active, and which Services only rules handle. */
import { Gauge, type Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import type { Exclusion, MapUse, MapView } from '../modes/connect-time/facts.ts';
import type { Family } from '../net/address.ts';
import type { ProgrammedFamily } from '../state/frontends-by-service.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';

/** Programs of earlier processes. */
export interface StalePrograms {
  /** The number of attached programs. */
  readonly attached: number;
  /** Why they could not be removed. */
  readonly failure?: string;
  /** Why the number is not known. */
  readonly unknown?: string;
  /** The number of attached programs that may be stale, or another agent's. */
  readonly unidentified?: number;
}

export interface ConnectTimeFacts {
  readonly clock: Clock;
  /** The sockets whose connections are translated. */
  readonly wanted: () => Config['connectTime'];
  /** Undefined: no pods are excluded. */
  readonly exclusion: () => Exclusion | undefined;
  readonly families: () => readonly ProgrammedFamily[];
  readonly stale: () => StalePrograms;
  /** Undefined: only rules translate connections. */
  readonly maps: (family: Family) => MapView | undefined;
}

const states = ['off', 'host', 'all', 'unavailable', 'stale', 'unknown'] as const;

const sliceMs = 2;

export function connectTimeState({
  families,
  maps,
  stale,
  wanted,
}: Pick<ConnectTimeFacts, 'families' | 'maps' | 'stale' | 'wanted'>): (typeof states)[number] {
  const { attached, failure, unidentified = 0 } = stale();
  if (attached > 0 || failure !== undefined) return 'stale';
  if (unidentified > 0) return 'unknown';
  if (wanted() === 'off') return 'off';
  return families().some(({ family }) => maps(family) !== undefined) ? wanted() : 'unavailable';
}

export function connectTimeMetrics(registry: Registry, facts: ConnectTimeFacts): void {
  const registers = [registry];
  new Gauge({
    name: 'fairlead_connect_time_state',
    help: 'Whose connections are translated when they are made: the state that holds is 1; stale: by programs that no process updates; unknown: attached programs may be such; see --connect-time',
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
  { families, maps }: ConnectTimeFacts,
  name: string,
  help: string,
  value: (use: MapUse) => MapUse['used'],
): void {
  new Gauge({
    name: `fairlead_connect_time_${name}`,
    help: `${help} of connect-time translation`,
    labelNames: ['ip_family', 'map'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { family } of families()) {
        const use = maps(family)?.use;
        if (use === undefined) continue;
        for (const map of ['frontends', 'endpoints'] as const) {
          this.set({ ip_family: family, map }, value(use)[map]);
        }
      }
    },
  });
}

async function reasons({ clock, maps }: ConnectTimeFacts, { family, inForce }: ProgrammedFamily) {
  const byReason = new Map<string, number>();
  const pacer = new Pacer(clock, sliceMs);
  const own = maps(family);
  for (const forwarding of own === undefined ? [] : inForce.values()) {
    const reason = own?.reasonOf(forwarding);
    if (reason !== undefined) byReason.set(reason, (byReason.get(reason) ?? 0) + 1);
    if (pacer.due) await pacer.rest();
  }
  return { family, byReason };
}
