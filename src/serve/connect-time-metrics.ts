/** Whether connect-time translation is active, and which Services only rules handle. */
import type { Registry } from 'prom-client';
import type { MapView } from '../connect-time/maps/facts.ts';
import type { Family } from '../net/address.ts';
import { addCount } from '../net/counts.ts';
import type { ProgrammedFamily } from '../state/frontends-in-force.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import type { AgentState } from './ask/agent-state.ts';
import { readMetric } from './metric-table.ts';

type ConnectTimeFacts = Pick<AgentState, 'connectTime' | 'engine'>;

const states = ['off', 'host', 'all', 'unavailable', 'stale', 'unknown'] as const;

export function connectTimeState({ connectTime, engine }: ConnectTimeFacts) {
  const { reach, stale } = connectTime;
  const { attached, failure, unidentified = 0 } = stale.now;
  if (attached > 0 || failure !== undefined) return 'stale';
  if (unidentified > 0) return 'unknown';
  if (reach === 'off') return 'off';
  const isUsed = engine?.families.some(({ family }) => engine.maps(family) !== undefined);
  return isUsed ? reach : 'unavailable';
}

export function connectTimeMetrics(
  registry: Registry,
  facts: ConnectTimeFacts & Pick<AgentState, 'clock'>,
): void {
  const families = () => facts.engine?.families ?? [];
  const maps = (family: Family) => facts.engine?.maps(family);
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
    const { excluded = 0, pods } = facts.connectTime.excludedPods.exclusion ?? {};
    if (pods === undefined) return [];
    return [
      [{ cgroup: 'found' }, excluded],
      [{ cgroup: 'missing' }, pods - excluded],
    ];
  });
  readMetric('fairlead_connect_time_left_to_rules', registry, async () => {
    const counts = await Promise.all(
      families().map((one) => reasons(facts.clock, maps(one.family), one)),
    );
    return counts.flatMap(({ family, byReason }) =>
      Array.from(byReason, ([reason, n]) => [{ ip_family: family, reason }, n] as const),
    );
  });
}

async function reasons(
  clock: Clock,
  maps: MapView | undefined,
  { family, inForce }: ProgrammedFamily,
) {
  const byReason = new Map<string, number>();
  const pacer = new Pacer(clock);
  for (const forwarding of maps === undefined ? [] : inForce.values()) {
    const reason = maps?.reasonOf(forwarding);
    if (reason !== undefined) addCount(byReason, reason);
    if (pacer.due) await pacer.rest();
  }
  return { family, byReason };
}
