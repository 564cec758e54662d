/** Whether connect-time translation is active, and which Services only rules handle. */
import type { Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import type { Exclusion, MapView, StaleState } from '../connect-time/maps/facts.ts';
import type { Family } from '../net/address.ts';
import type { ProgrammedFamily } from '../state/services-by-frontend.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { readMetric } from './metric-table.ts';

interface ConnectTimeFacts {
  readonly clock: Clock;
  /** The sockets whose connections are translated. */
  readonly configured: () => Config['connectTime'];
  /** Undefined: no pods are excluded. */
  readonly exclusion: () => Exclusion | undefined;
  readonly families: () => readonly ProgrammedFamily[];
  readonly stale: () => StaleState;
  /** Undefined: only rules translate connections. */
  readonly maps: (family: Family) => MapView | undefined;
}

const states = ['off', 'host', 'all', 'unavailable', 'stale', 'unknown'] as const;

const sliceMs = 2;

export function connectTimeState({
  families,
  maps,
  stale,
  configured,
}: Pick<ConnectTimeFacts, 'families' | 'maps' | 'stale' | 'configured'>): (typeof states)[number] {
  const { attached, failure, unidentified = 0 } = stale();
  if (attached > 0 || failure !== undefined) return 'stale';
  if (unidentified > 0) return 'unknown';
  if (configured() === 'off') return 'off';
  return families().some(({ family }) => maps(family) !== undefined) ? configured() : 'unavailable';
}

export function connectTimeMetrics(registry: Registry, facts: ConnectTimeFacts): void {
  const { exclusion, families, maps } = facts;
  readMetric('fairlead_connect_time_state', registry, () => {
    const now = connectTimeState(facts);
    return states.map((state) => [{ state }, state === now ? 1 : 0]);
  });
  for (const [name, what] of [
    ['fairlead_connect_time_elements', 'used'],
    ['fairlead_connect_time_elements_max', 'limit'],
  ] as const) {
    readMetric(name, registry, () =>
      families().flatMap(({ family }) => {
        const use = maps(family)?.use;
        if (use === undefined) return [];
        return (['frontends', 'endpoints'] as const).map(
          (map) => [{ ip_family: family, map }, use[what][map]] as const,
        );
      }),
    );
  }
  readMetric('fairlead_connect_time_excluded_pods', registry, () => {
    const { excluded = 0, pods } = exclusion() ?? {};
    if (pods === undefined) return [];
    return [
      [{ cgroup: 'found' }, excluded],
      [{ cgroup: 'missing' }, pods - excluded],
    ];
  });
  readMetric('fairlead_connect_time_left_to_rules', registry, async () => {
    const counts = await Promise.all(families().map((one) => reasons(facts, one)));
    return counts.flatMap(({ family, byReason }) =>
      Array.from(byReason, ([reason, n]) => [{ ip_family: family, reason }, n] as const),
    );
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
