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

/** What a Service wants to hold, and the port that does not get it if another Service does. */
type Wanted = Map<ClaimKey, { readonly frontend: Frontend; readonly loser: ServicePortName }>;

/** One Service's claim to one frontend. */
interface Claim {
  readonly service: string;
  readonly createdMs: number;
  readonly isClusterIP: boolean;
  held: boolean;
  /** The better claimant that has been reported. */
  lostTo: string | undefined;
  /** The next best claim to the same frontend; there is seldom one. */
  next: Claim | undefined;
}

/**
 * A frontend changes hands in steps, so that two Forwardings never hold it at the same time: the
 * better claimant asks the holder to claim `again`, the holder gives it up and asks the better one
 * to claim `again`, and that one gets it. Whoever leaves steps out has to write what gives a
 * frontend up before, or together with, what takes it. What a call costs depends on the Service's
 * own frontends only.
 */
export class Claims {
  /** The best claim to each frontend. */
  readonly #best = new Map<ClaimKey, Claim>();
  /** Keys of the frontends that each Service claims. */
  readonly #claimed = new Map<string, readonly ClaimKey[]>();

  /** `forwardings` are all those of the Service, of every port and family. */
  claim(
    { key: name, createdMs }: Pick<Service, 'key' | 'createdMs'>,
    forwardings: readonly Forwarding[],
  ): ClaimResult {
    const { wanted, lost } = firstOfEach(forwardings);
    const again = new Set<string>();
    const before = this.#claimed.get(name) ?? [];
    const gone = before.filter((key) => !wanted.has(key));
    for (const key of gone) this.#withdraw(key, name, again);
    if (gone.length > 0 || before.length < wanted.size) {
      this.#claimed.set(name, Array.from(wanted.keys()));
    }

    const conflicts: Conflict[] = [];
    for (const [key, { frontend, loser }] of wanted) {
      const best = this.#enter(key, name, createdMs, frontend.kind === 'clusterIP');
      const mine = claimOf(best, name)!;
      settle(best, mine, again);
      if (!mine.held) lost.push(frontend);
      const holder = best === mine ? undefined : best.service;
      if (holder !== undefined && holder !== mine.lostTo) {
        conflicts.push({ loser, frontend, holder });
      }
      mine.lostTo = holder;
    }
    return {
      forwardings: lost.length === 0 ? forwardings : without(forwardings, lost),
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

  /** Makes sure of this Service's claim to the frontend, and returns the best of all. */
  #enter(key: ClaimKey, service: string, createdMs: number, isClusterIP: boolean): Claim {
    const known = this.#best.get(key);
    const old = claimOf(known, service);
    if (known && old?.createdMs === createdMs && old.isClusterIP === isClusterIP) return known;
    const { held, lostTo } = old ?? { held: false, lostTo: undefined };
    const mine = { service, createdMs, isClusterIP, held, lostTo, next: undefined };
    const best = withClaim(withoutClaim(known, old), mine);
    this.#best.set(key, best);
    return best;
  }

  #withdraw(key: ClaimKey, service: string, again: Set<string>): void {
    const known = this.#best.get(key);
    const best = withoutClaim(known, claimOf(known, service));
    if (best === undefined) {
      this.#best.delete(key);
      return;
    }
    this.#best.set(key, best);
    settle(best, undefined, again);
  }
}

/** The claim of a Service, among those from `best` on. */
function claimOf(best: Claim | undefined, service: string): Claim | undefined {
  let claim = best;
  while (claim !== undefined && claim.service !== service) claim = claim.next;
  return claim;
}

/** Puts a claim where it belongs, and returns the best one. */
function withClaim(best: Claim | undefined, mine: Claim): Claim {
  if (best === undefined || compare(mine, best) < 0) {
    mine.next = best;
    return mine;
  }
  let better = best;
  while (better.next !== undefined && compare(better.next, mine) < 0) better = better.next;
  mine.next = better.next;
  better.next = mine;
  return best;
}

/** Takes a claim out, and returns the best one that is left. */
function withoutClaim(best: Claim | undefined, old: Claim | undefined): Claim | undefined {
  if (best === undefined || old === undefined) return best;
  if (best === old) return old.next;
  let better = best;
  while (better.next !== undefined && better.next !== old) better = better.next;
  better.next = old.next;
  return best;
}

/**
 * Takes, keeps or gives up the frontend for `mine`, and notes who has to claim again for it: the
 * best claimant when nobody holds it, the holder when that is another one.
 */
function settle(best: Claim, mine: Claim | undefined, again: Set<string>): void {
  if (mine?.held === true && mine !== best) mine.held = false;
  let holder: Claim | undefined = best;
  while (holder !== undefined && !holder.held) holder = holder.next;
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
 * has it, and the other's is lost; within a port, `resolve` gives each address once.
 */
function firstOfEach(forwardings: readonly Forwarding[]): { wanted: Wanted; lost: Frontend[] } {
  const wanted: Wanted = new Map();
  const lost: Frontend[] = [];
  for (const { family, frontends, servicePort } of forwardings) {
    for (const frontend of frontends) {
      const key = claimKey(family, servicePort.protocol, frontend);
      if (wanted.has(key)) lost.push(frontend);
      else wanted.set(key, { frontend, loser: servicePort });
    }
  }
  return { wanted, lost };
}

const protocolNumbers = { TCP: 0, UDP: 1, SCTP: 2 } as const satisfies Record<Protocol, number>;

/** For an IPv4 address a number, because strings of tens of thousands of Services take memory. */
function claimKey(family: Family, protocol: Protocol, frontend: Frontend): ClaimKey {
  const key = frontendKey(frontend);
  // The protocol goes above the 48 bits of address and port.
  if (typeof key === 'number' && key >= 0) return protocolNumbers[protocol] * 2 ** 48 + key;
  return `${family} ${protocol} ${key}`;
}

function without(forwardings: readonly Forwarding[], all: readonly Frontend[]): Forwarding[] {
  const lost = new Set(all);
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
