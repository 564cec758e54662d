/** Whether the desired state of a Service is in force, waits, or is set aside. */
import { forwardingKeys, type Service } from '../../state/types.ts';
import type { FamilySync } from '../../sync/family.ts';
import type { Status, Tracked } from '../../sync/tracked.ts';
import type { Clock } from '../../time/clock.ts';
import type { AgentState } from './agent-state.ts';

/**
 * The state of one port (`Forwarding.key`) of a Service (`namespace/name`) in one family, and
 * `Clock.now` since when.
 */
export function portState(
  { clock, state }: Pick<AgentState, 'clock' | 'state'>,
  service: string,
  key: string,
  sync: FamilySync,
): Pick<Tracked, 'status' | 'sinceMs'> {
  const known = sync.statusOf(key);
  const { sinceMs } = state.changed.get(service) ?? known ?? { sinceMs: clock.now() };
  return known === undefined || (known.status === 'in force' && state.isDirty(service))
    ? { status: 'waiting', sinceMs }
    : known;
}

/** The worst state of all ports of a Service. It waits for a family that is not served. */
export function stateOf(
  agent: AgentState,
  service: Service,
  keys = forwardingKeys(service),
): Status {
  let worst: Status = 'in force';
  let served = 0;
  for (const sync of agent.engine?.families ?? []) {
    if (!service.clusterIPs.some(({ family }) => family === sync.family)) continue;
    served += 1;
    for (const key of keys) {
      const { status } = portState(agent, service.key, key, sync);
      if (status === 'set aside') return status;
      if (status === 'waiting') worst = status;
    }
  }
  return served < service.clusterIPs.length ? 'waiting' : worst;
}

/** In RFC 3339, of a time of `Clock.now`. */
export function timeOf(clock: Pick<Clock, 'now' | 'wallMs'>, atMs: number): string {
  return new Date(clock.wallMs() - clock.now() + atMs).toISOString();
}
