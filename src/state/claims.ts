/** Claims of Services to frontends, and which of several is the best; see `frontend-owners.ts`. */
import type { Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import {
  type ClaimKey,
  claimKey,
  familyOf,
  type NodePortKey,
  nodePortClaim,
} from './frontend-key.ts';
import type { NodeSockets } from './node-sockets.ts';
import { comparePrecedence } from './precedence.ts';
import type { Frontend, Service, ServicePortName } from './types.ts';

/** The owner's name if no Service may have the port: who listens there. */
const keepers = ['this proxy', 'the API server', 'a program of the node'] as const;
const [proxy, server, program] = keepers;
type Keeper = (typeof keepers)[number];

/** A Service, as far as it matters for its claims. */
export type Claimant = Pick<Service, 'key' | 'createdMs'>;

/** A Service's claim to one frontend. */
export interface Claim {
  claimant: Claimant;
  /** As its Service has it, if it does. */
  frontend: Frontend;
  servicePort: ServicePortName;
  /** What may block the claim: the node port of the same number, or a `Keeper`. */
  readonly near: NodePortKey | Keeper | undefined;
  /** The owner in the last reported conflict; undefined: its Service has the frontend. */
  lostTo: string | undefined;
}

/** The claims to one frontend. A single claim is stored without a list, which saves megabytes. */
export type Claims = Claim | Contest;

/** Several claims to one frontend. */
export class Contest {
  /** Best first. */
  readonly #sorted: Claim[] = [];
  readonly #byService = new Map<string, Claim>();

  constructor(first: Claim) {
    this.set(first);
  }

  get best(): Claim {
    return this.#sorted[0]!;
  }

  /** The only remaining claim. */
  get only(): Claim | undefined {
    return this.#sorted.length === 1 ? this.best : undefined;
  }

  get all(): readonly Claim[] {
    return this.#sorted;
  }

  of(service: string): Claim | undefined {
    return this.#byService.get(service);
  }

  /** Replaces the Service's claim, if it has one. */
  set(claim: Claim): void {
    const { key: service } = claim.claimant;
    claim.lostTo = this.#byService.get(service)?.lostTo ?? claim.lostTo;
    this.remove(service);
    this.#byService.set(service, claim);
    this.#sorted.splice(this.#indexOf(claim), 0, claim);
  }

  remove(service: string): void {
    const known = this.#byService.get(service);
    if (known === undefined) return;
    this.#byService.delete(service);
    this.#sorted.splice(this.#indexOf(known), 1);
  }

  /** The number of better claims. */
  #indexOf(claim: Claim): number {
    let low = 0;
    let high = this.#sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(this.#sorted[middle]!, claim) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export function isKeeper(near: string): near is Keeper {
  return keepers.some((keeper) => keeper === near);
}

/** Whether a range of ports at the same address may have the port, too. */
export function isSingle({ address, lastPort }: Frontend): boolean {
  return address !== undefined && lastPort === undefined;
}

/** The key of a range of ports at the address of the claim. */
export function rangeAt(
  key: ClaimKey,
  { frontend, servicePort }: Pick<Claim, 'frontend' | 'servicePort'>,
) {
  const { address } = frontend;
  return claimKey(familyOf(key), servicePort.protocol, { address, port: 0 });
}

/** The claim whose Service has the frontend, whoever should have it by now. */
export function givenIn(claims: Claims | undefined): Claim | undefined {
  if (claims instanceof Contest) return claims.all.find(({ lostTo }) => lostTo === undefined);
  return claims?.lostTo === undefined ? claims : undefined;
}

export function firstOf(claims: Claims): Claim {
  return claims instanceof Contest ? claims.best : claims;
}

/** Whether it is the only claim to its frontend, and that of this Service. */
export function isOwn(claims: Claims, service: string): claims is Claim {
  return !(claims instanceof Contest) && claims.claimant.key === service;
}

export function claimOf(claims: Claims | undefined, service: string): Claim | undefined {
  if (claims instanceof Contest) return claims.of(service);
  return claims?.claimant.key === service ? claims : undefined;
}

function compare(a: Claim, b: Claim): number {
  const [one, other] = [a.claimant, b.claimant];
  const order =
    comparePrecedence(a.frontend.kind, b.frontend.kind) || one.createdMs - other.createdMs;
  if (order !== 0 || one.key === other.key) return order;
  return one.key < other.key ? -1 : 1;
}

/** Whether a range has precedence over the claim to a port within it. */
export function blocks(range: Claim, claim: Claim): boolean {
  return range.claimant.key !== claim.claimant.key && compare(range, claim) < 0;
}

/** What the claim to a port gets where a range has it, too. */
export function within(range: Claim, claim: Claim): Frontend | undefined {
  return blocks(range, claim) ? undefined : { ...claim.frontend, isInRange: true };
}

/** Whether both claims have the same ports, with the same precedence if it is a range of them. */
export function isSameRange(some: Claim, other: Claim): boolean {
  const [one, two] = [some.frontend, other.frontend];
  if (one.lastPort === undefined && two.lastPort === undefined) return true;
  return one.port === two.port && one.lastPort === two.lastPort && compare(some, other) === 0;
}

/** What has precedence over the frontend, at an address of the node or of the API server. */
export function nearOf(
  family: Family,
  protocol: Protocol,
  { address, kind, lastPort, port }: Frontend,
  { addresses, hasProgram, listening, nodePorts, server: at }: NodeSockets,
): Claim['near'] {
  if (address === undefined || comparePrecedence(kind, 'nodePort') < 0) return undefined;
  if (lastPort !== undefined) {
    if (kind === 'externalIP' && at?.address === address.key) return server;
    return addresses.has(address.key) || nodePorts.has(address.key) ? program : undefined;
  }
  if (kind === 'externalIP' && at?.address === address.key) {
    if (at.port === 'all' || (protocol === 'TCP' && at.port === port)) return server;
  }
  const acceptsNodePorts = nodePorts.has(address.key);
  if (acceptsNodePorts && protocol === 'TCP' && listening.has(port)) return proxy;
  if (kind === 'externalIP' && hasProgram?.(protocol, address, port)) return program;
  return acceptsNodePorts ? nodePortClaim(family, protocol, port) : undefined;
}
