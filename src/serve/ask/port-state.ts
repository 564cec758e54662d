/** Whether the desired state of a Service is in force, waits, or is set aside. */
import { forwardingKeys, type Service } from '../../state/types.ts';
import type { FamilySync, Status } from '../../sync/family.ts';
import type { AgentState } from './agent-state.ts';

/** The state of one port (`Forwarding.key`) of a Service (`namespace/name`) in one family. */
export function portState({ state }: AgentState, service: string, key: string, sync: FamilySync) {
  const status = sync.statusOf(key);
  return status === 'in force' && state.isDirty(service) ? 'waiting' : status;
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
      const state = portState(agent, service.key, key, sync);
      if (state === 'set aside') return state;
      if (state === 'waiting') worst = state;
    }
  }
  return served < service.clusterIPs.length ? 'waiting' : worst;
}
