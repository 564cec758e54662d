/**
 * Who holds a frontend that several Services claim: the same external IP and port, load-balancer
 * address, node port or, in hand-written manifests, ClusterIP. Exactly one holds it, and which one
 * does not depend on the order in which the Services came: a ClusterIP before any other kind (or
 * else an external IP could steal a Service's traffic, CVE-2020-8554), then the Service that was
 * created first, then by name.
 */
import { type Family, formatAddress } from './address.ts';
import { frontendKey } from './frontend-key.ts';
import {
  type Forwarding,
  type Frontend,
  formatServicePortName,
  objectKey,
  type Protocol,
  type Service,
  type ServicePortName,
} from './types.ts';

/** A Service can't be reached at an address or port that it claims. */
export interface Conflict {
  readonly loser: ServicePortName;
  readonly frontend: Frontend;
  /** Key (`ns/name`) of the Service whose claim is better. */
  readonly holder: string;
}

export interface ClaimResult {
  /** The Forwardings that were given, each with only the frontends that its Service holds. */
  readonly forwardings: readonly Forwarding[];
  /**
   * Keys of other Services to resolve and claim again, in the same sync: they have to give up a
   * frontend, or can have one now.
   */
  readonly again: readonly string[];
  /** Frontends that this Service does not get, each reported once for each better claimant. */
  readonly conflicts: readonly Conflict[];
}

/** Identifies a frontend whatever its family and protocol. */
type ClaimKey = number | string;

/** One Service's claim to one frontend. */
interface Claim {
  readonly service: string;
  readonly createdMs: number;
  readonly isClusterIP: boolean;
  held: boolean;
  /** The better claimant that has been reported. */
  lostTo: string | undefined;
}

/**
 * A frontend changes hands in steps, so that two Forwardings never hold it at the same time: the
 * better claimant asks the holder to claim `again`, the holder gives it up and asks the better one
 * to claim `again`, and that one gets it. Whoever leaves steps out has to write what gives a
 * frontend up before, or together with, what takes it. What a call costs depends on the Service's
 * own frontends only.
 */
export class Claims {
  /** Claims to each frontend, the best first. */
  readonly #claims = new Map<ClaimKey, readonly Claim[]>();
  /** Keys of the frontends that each Service claims. */
  readonly #claimed = new Map<string, readonly ClaimKey[]>();

  /** `forwardings` are all those of the Service, of every port and family. */
  claim(
    service: Pick<Service, 'namespace' | 'name' | 'createdMs'>,
    forwardings: readonly Forwarding[],
  ): ClaimResult {
    const name = objectKey(service.namespace, service.name);
    const lost = new Set<Frontend>();
    const wanted = firstOfEach(forwardings, lost);
    const again = new Set<string>();
    for (const key of this.#claimed.get(name) ?? []) {
      if (!wanted.has(key)) this.#withdraw(key, name, again);
    }
    this.#claimed.set(name, Array.from(wanted.keys()));

    const conflicts: Conflict[] = [];
    for (const [key, { frontend, loser }] of wanted) {
      const isClusterIP = frontend.kind === 'clusterIP';
      const claims = this.#enter(key, name, service.createdMs, isClusterIP);
      const mine = claims.find((claim) => claim.service === name)!;
      settle(claims, mine, again);
      if (!mine.held) lost.add(frontend);
      const holder = claims[0] === mine ? undefined : claims[0]!.service;
      if (holder !== undefined && holder !== mine.lostTo) {
        conflicts.push({ loser, frontend, holder });
      }
      mine.lostTo = holder;
    }
    return {
      forwardings: lost.size === 0 ? forwardings : without(forwardings, lost),
      again: [...again],
      conflicts,
    };
  }

  /** The Service has gone. Returns the keys of Services to resolve and claim again. */
  release(name: string): readonly string[] {
    const again = new Set<string>();
    for (const key of this.#claimed.get(name) ?? []) this.#withdraw(key, name, again);
    this.#claimed.delete(name);
    return [...again];
  }

  /** Returns all claims to the frontend, with this Service's among them. */
  #enter(
    key: ClaimKey,
    service: string,
    createdMs: number,
    isClusterIP: boolean,
  ): readonly Claim[] {
    const claims = this.#claims.get(key) ?? [];
    const old = claims.find((claim) => claim.service === service);
    if (old?.createdMs === createdMs && old.isClusterIP === isClusterIP) return claims;
    const others = claims.filter((claim) => claim !== old);
    const { held, lostTo } = old ?? { held: false, lostTo: undefined };
    const mine = { service, createdMs, isClusterIP, held, lostTo };
    // Not spread: concat makes an array without spare room, and there is one for each frontend.
    const all = others.concat(mine).sort(compare);
    this.#claims.set(key, all);
    return all;
  }

  #withdraw(key: ClaimKey, service: string, again: Set<string>): void {
    const rest = (this.#claims.get(key) ?? []).filter((claim) => claim.service !== service);
    if (rest.length === 0) {
      this.#claims.delete(key);
      return;
    }
    this.#claims.set(key, rest);
    settle(rest, undefined, again);
  }
}

/**
 * Takes, keeps or gives up the frontend for `mine`, and notes who has to claim again for it: the
 * best claimant when nobody holds it, the holder when that is another one.
 */
function settle(claims: readonly Claim[], mine: Claim | undefined, again: Set<string>): void {
  const best = claims[0];
  if (best === undefined) return;
  if (mine?.held === true && mine !== best) mine.held = false;
  const holder = claims.find((claim) => claim.held);
  if (holder === best) return;
  if (holder !== undefined) again.add(holder.service);
  else if (best === mine) mine.held = true;
  else again.add(best.service);
}

function compare(a: Claim, b: Claim): number {
  if (a.isClusterIP !== b.isClusterIP) return a.isClusterIP ? -1 : 1;
  if (a.createdMs !== b.createdMs) return a.createdMs - b.createdMs;
  return a.service < b.service ? -1 : 1;
}

/**
 * What a Service claims, by key. Where two of its ports claim the same frontend, the first port
 * has it, and the other's is `lost`; within a port, `resolve` gives each address once.
 */
function firstOfEach(
  forwardings: readonly Forwarding[],
  lost: Set<Frontend>,
): Map<ClaimKey, { frontend: Frontend; loser: ServicePortName }> {
  const wanted = new Map<ClaimKey, { frontend: Frontend; loser: ServicePortName }>();
  for (const { family, frontends, servicePort } of forwardings) {
    for (const frontend of frontends) {
      const key = claimKey(family, servicePort.protocol, frontend);
      if (wanted.has(key)) lost.add(frontend);
      else wanted.set(key, { frontend, loser: servicePort });
    }
  }
  return wanted;
}

const protocolNumbers = { TCP: 0, UDP: 1, SCTP: 2 } as const satisfies Record<Protocol, number>;

/** For an IPv4 address a number, because strings of tens of thousands of Services take memory. */
function claimKey(family: Family, protocol: Protocol, frontend: Frontend): ClaimKey {
  const key = frontendKey(frontend);
  // The protocol goes above the 48 bits of address and port.
  if (typeof key === 'number' && key >= 0) return protocolNumbers[protocol] * 2 ** 48 + key;
  return `${family} ${protocol} ${key}`;
}

function without(forwardings: readonly Forwarding[], lost: ReadonlySet<Frontend>): Forwarding[] {
  return forwardings.map((forwarding) => {
    const frontends = forwarding.frontends.filter((frontend) => !lost.has(frontend));
    return frontends.length < forwarding.frontends.length
      ? { ...forwarding, frontends }
      : forwarding;
  });
}

/** `TCP 10.0.0.1:80`, `UDP [fd00::1]:53`, `TCP node port 30080`. */
export function formatFrontend(
  protocol: Protocol,
  frontend: Pick<Frontend, 'address' | 'port'>,
): string {
  if (frontend.address === undefined) return `${protocol} node port ${frontend.port}`;
  const address = formatAddress(frontend.address.bytes);
  return frontend.address.family === 'IPv4'
    ? `${protocol} ${address}:${frontend.port}`
    : `${protocol} [${address}]:${frontend.port}`;
}

/** `web/shop:http does not get TCP 10.0.0.1:80, which web/cart holds`: for logs and events. */
export function formatConflict({ loser, frontend, holder }: Conflict): string {
  const what = formatFrontend(loser.protocol, frontend);
  return `${formatServicePortName(loser)} does not get ${what}, which ${holder} holds`;
}
