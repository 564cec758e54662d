/** Whether the desired state of a Service is in force, pending, or set aside. */
import type { Family } from '../../net/address.ts';
import { isSame } from '../../state/pool.ts';
import { type Forwarding, forwardingKeys, type Service } from '../../state/types.ts';
import type { FamilySync } from '../../sync/family.ts';
import type { AgentState } from './agent-state.ts';

type State = 'in force' | 'waiting' | 'set aside';

/** By the Forwarding in force, the desired one that was found to be the same. */
const sameAs = new WeakMap<Forwarding, Forwarding>();

/** Whether what is desired of the key is in force. The order of endpoints is compared once. */
export function isAsDesired({ desired, inForce }: FamilySync, key: string): boolean {
  const now = inForce.get(key);
  const next = desired.get(key);
  if (now === undefined || next === undefined) return now === next;
  if (now === next || sameAs.get(now) === next) return true;
  if (!isSame(now, next)) return false;
  sameAs.set(now, next);
  return true;
}

/** Make one for each answer: it copies the quarantine. */
export class States {
  readonly #agent: AgentState;
  readonly #families: readonly FamilySync[];
  readonly #aside: readonly ReadonlySet<string>[];

  constructor(agent: AgentState) {
    this.#agent = agent;
    this.#families = agent.engine?.families ?? [];
    this.#aside = this.#families.map(
      ({ quarantined }) => new Set(Array.from(quarantined, ({ key }) => key)),
    );
  }

  /** The state of one port in one family. */
  ofKey(service: Service, key: string, sync: FamilySync): State {
    if (this.#aside[this.#families.indexOf(sync)]?.has(key)) return 'set aside';
    const isThere = sync.desired.has(key) && isAsDesired(sync, key);
    return isThere && !this.#agent.state.isDirty(service.key) ? 'in force' : 'waiting';
  }

  /** The worst state of all ports of a Service. It waits for a family that is not served. */
  of(service: Service, keys = forwardingKeys(service)): State {
    let worst: State = 'in force';
    let served = 0;
    for (const sync of this.#families) {
      if (!hasFamily(service, sync.family)) continue;
      served += 1;
      for (const key of keys) {
        const state = this.ofKey(service, key, sync);
        if (state === 'set aside') return state;
        if (state === 'waiting') worst = state;
      }
    }
    return served < service.clusterIPs.length ? 'waiting' : worst;
  }
}

function hasFamily({ clusterIPs }: Service, wanted: Family): boolean {
  for (const { family } of clusterIPs) if (family === wanted) return true;
  return false;
}
