/**
 * What the ports of a Service share: most have the same endpoints, and a change of endpoints leaves
 * the rest as it was. V8 marks every object again and again, and a Service may have 20,000 ports.
 */
import type { Family } from '../net/address.ts';
import { categorise, type Pools } from './categorise.ts';
import { sameDeal, sameFrontends } from './equal.ts';
import { type Candidates, sameCandidates } from './gathered.ts';
import type { PortPolicy } from './paths.ts';
import { share } from './pool.ts';
import {
  type Forwarding,
  type Frontend,
  forwardingKey,
  type Service,
  type ServicePort,
} from './types.ts';

/** What the port before has. */
interface LastPort {
  readonly candidates: Candidates;
  readonly policy: PortPolicy;
  readonly pools: Pools;
}

/** Of the first ports of a Service. Their frontends are those that they had last. */
interface KnownPorts extends Record<Family, (readonly Frontend[])[]> {
  readonly keys: string[];
  readonly servicePorts: Forwarding['servicePort'][];
}

/**
 * By Service, if it has several ports: both families share what is equal, and what is in force
 * shares it with what is desired after another change of endpoints.
 */
const portsKnown = new WeakMap<Service, KnownPorts>();

function portsOf(service: Service): KnownPorts {
  const known = portsKnown.get(service) ?? { keys: [], servicePorts: [], IPv4: [], IPv6: [] };
  portsKnown.set(service, known);
  return known;
}

/** For one family, whose ports are resolved one after the other. */
export class PortSharing {
  readonly #service: Service;
  readonly #family: Family;
  /** Undefined: it has one port, which is not remembered. */
  readonly #known: KnownPorts | undefined;
  #at = 0;
  #last: LastPort | undefined;
  #deal: Forwarding['deal'];

  constructor(service: Service, family: Family, ports: number) {
    this.#service = service;
    this.#family = family;
    if (ports > 1) this.#known = portsOf(service);
  }

  /** Those of the port before, where they are equal. */
  candidates(next: Candidates): Candidates {
    const last = this.#last?.candidates;
    return last !== undefined && sameCandidates(last, next) ? last : next;
  }

  pools(candidates: Candidates, policy: PortPolicy): Pools {
    const last = this.#last;
    if (last?.candidates === candidates && last.policy === policy) {
      const { cluster, local, serving } = last.pools;
      for (const list of [cluster, local, serving]) share(list);
      return last.pools;
    }
    const pools = categorise(candidates, policy);
    this.#last = { candidates, policy, pools };
    return pools;
  }

  /** That of the last port that had one, where it is equal. */
  deal(next: Forwarding['deal']): Forwarding['deal'] {
    const last = this.#deal;
    if (last !== undefined && sameDeal(last, next) && last.leftOut === next?.leftOut) {
      share(last);
      return last;
    }
    this.#deal = next;
    return next;
  }

  /** The next port's names and frontends: those that are known, where they are equal. */
  named(
    { name: port, protocol }: ServicePort,
    made: readonly Frontend[],
  ): Pick<Forwarding, 'key' | 'servicePort' | 'frontends'> {
    const at = this.#at;
    this.#at += 1;
    const known = this.#known;
    const { namespace, name } = this.#service;
    const servicePort = known?.servicePorts[at] ?? { namespace, name, port, protocol };
    const key = known?.keys[at] ?? forwardingKey(servicePort);
    if (known === undefined) return { key, servicePort, frontends: made };
    const before = known[this.#family][at];
    const frontends = before !== undefined && sameFrontends(before, made) ? before : made;
    known.keys[at] = key;
    known.servicePorts[at] = servicePort;
    known[this.#family][at] = frontends;
    return { key, servicePort, frontends };
  }
}
