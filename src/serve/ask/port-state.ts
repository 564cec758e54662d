/** Whether what is desired of a Service is in force, waits, or is set aside. */
import { forwardingKey, type Service } from '../../state/types.ts';
import type { FamilySync } from '../../sync/family.ts';
import type { Inside } from './inside.ts';

export type State = 'in force' | 'waiting' | 'set aside';

/** Make one for each answer: it keeps a copy of what is set aside. */
export class States {
  readonly #inside: Inside;
  readonly #families: readonly FamilySync[];
  readonly #aside: readonly ReadonlySet<string>[];

  constructor(inside: Inside) {
    this.#inside = inside;
    this.#families = inside.engine()?.families ?? [];
    this.#aside = this.#families.map(
      ({ quarantined }) => new Set(Array.from(quarantined, ({ key }) => key)),
    );
  }

  /** The state of one port in one family. */
  ofKey(service: Service, key: string, sync: FamilySync): State {
    if (this.#aside[this.#families.indexOf(sync)]?.has(key)) return 'set aside';
    const { desired, inForce } = sync;
    const wanted = desired.get(key);
    const isThere = wanted !== undefined && wanted === inForce.get(key);
    return isThere && !this.#inside.state.isDirty(service.key) ? 'in force' : 'waiting';
  }

  /** The worst state of all ports of a Service. */
  of(service: Service): State {
    let worst: State = 'in force';
    const { clusterIPs, name, namespace } = service;
    for (const sync of this.#families) {
      if (!clusterIPs.some(({ family }) => family === sync.family)) continue;
      for (const { name: port, protocol } of service.ports) {
        const key = forwardingKey({ namespace, name, port, protocol });
        const state = this.ofKey(service, key, sync);
        if (state === 'set aside') return state;
        if (state === 'waiting') worst = state;
      }
    }
    return this.#families.length === 0 ? 'waiting' : worst;
  }
}
