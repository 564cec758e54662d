/**
 * Who holds a frontend that several Services claim: the same external IP and port, load-balancer
 * address, node port or, in hand-written manifests, ClusterIP. Exactly one holds it, and which one
 * does not depend on the order in which the Services came: a ClusterIP before any other kind (or
 * else an external IP could steal a Service's traffic, CVE-2020-8554), then the Service that was
 * created first, then by name.
 */
import { type Family, formatAddress } from './address.ts';
import {
  askBest,
  bestOf,
  claimOf,
  type Entry,
  release,
  take,
  withClaim,
  withoutClaim,
} from './contest.ts';
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
  /** Frontends that this Service does not get, each reported once for each better claimant. */
  readonly conflicts: readonly Conflict[];
  /**
   * To be finished once the Forwardings were handed over: only then may others have what the
   * Service gives up. Returns keys of Services to resolve and claim again, in the same sync: they
   * have to give up a frontend, or can have one now.
   */
  readonly concede: () => Generator<undefined, readonly string[]>;
}

/** Identifies a frontend whatever its family and protocol. */
type ClaimKey = number | string;

/** What a Service wants to hold, and the port that does not get it if another Service does. */
type Wanted = Map<ClaimKey, { readonly frontend: Frontend; readonly loser: ServicePortName }>;

/**
 * A frontend changes hands in steps, so that two Forwardings never hold it at the same time: the
 * better claimant asks the holder to claim again, the holder gives it up and asks the better one
 * to claim again, and that one gets it. Whoever leaves steps out has to write what gives a
 * frontend up before, or together with, what takes it. What a call costs depends on the Service's
 * own frontends only, and between the steps of one Service others may take theirs.
 */
export class Claims {
  /** The claims to each frontend. */
  readonly #entries = new Map<ClaimKey, Entry>();
  /** Keys of the frontends that each Service claims. */
  readonly #claimed = new Map<string, readonly ClaimKey[]>();

  /** `forwardings` are all those of the Service, of every port and family. */
  *claim(
    { key: name, createdMs }: Pick<Service, 'key' | 'createdMs'>,
    forwardings: readonly Forwarding[],
  ): Generator<undefined, ClaimResult> {
    const { wanted, lost } = yield* firstOfEach(forwardings);
    const again = new Set<string>();
    const conceded: ClaimKey[] = [];
    const conflicts: Conflict[] = [];
    for (const [key, { frontend, loser }] of wanted) {
      const entry = this.#enter(key, name, createdMs, frontend.kind === 'clusterIP');
      const mine = claimOf(entry, name)!;
      const best = bestOf(entry);
      if (best === mine) take(entry, mine, again);
      else if (mine.held) conceded.push(key);
      else askBest(entry, again);
      if (best !== mine || !mine.held) lost.push(frontend);
      const holder = best === mine ? undefined : best.service;
      if (holder !== undefined && holder !== mine.lostTo) {
        conflicts.push({ loser, frontend, holder });
      }
      mine.lostTo = holder;
      yield;
    }
    return {
      forwardings: lost.length === 0 ? forwardings : without(forwardings, lost),
      conflicts,
      concede: () => this.#concede(name, wanted, conceded, again),
    };
  }

  /**
   * The Service has gone, and nothing of it is wanted any more. Returns the keys of Services to
   * resolve and claim again.
   */
  *release(name: string): Generator<undefined, readonly string[]> {
    const again = new Set<string>();
    for (const key of this.#claimed.get(name) ?? []) {
      this.#withdraw(key, name, again);
      yield;
    }
    this.#claimed.delete(name);
    return [...again];
  }

  *#concede(
    name: string,
    wanted: Wanted,
    conceded: readonly ClaimKey[],
    again: Set<string>,
  ): Generator<undefined, readonly string[]> {
    for (const key of conceded) {
      const entry = this.#entries.get(key);
      const mine = claimOf(entry, name);
      if (entry === undefined || mine === undefined) continue;
      release(entry, mine);
      askBest(entry, again);
      yield;
    }
    const before = this.#claimed.get(name) ?? [];
    let gone = 0;
    for (const key of before) {
      if (wanted.has(key)) continue;
      gone += 1;
      this.#withdraw(key, name, again);
      yield;
    }
    if (gone > 0 || before.length < wanted.size) {
      this.#claimed.set(name, Array.from(wanted.keys()));
    }
    return [...again];
  }

  /** Makes sure of this Service's claim to the frontend, and returns all claims to it. */
  #enter(key: ClaimKey, service: string, createdMs: number, isClusterIP: boolean): Entry {
    const known = this.#entries.get(key);
    const old = claimOf(known, service);
    if (known && old?.createdMs === createdMs && old.isClusterIP === isClusterIP) return known;
    const { held, lostTo } = old ?? { held: false, lostTo: undefined };
    const entry = withClaim(old === undefined ? known : withoutClaim(known, old), {
      service,
      createdMs,
      isClusterIP,
      held,
      lostTo,
    });
    this.#entries.set(key, entry);
    return entry;
  }

  #withdraw(key: ClaimKey, service: string, again: Set<string>): void {
    const known = this.#entries.get(key);
    const old = claimOf(known, service);
    if (old === undefined) return;
    const entry = withoutClaim(known, old);
    if (entry === undefined) {
      this.#entries.delete(key);
      return;
    }
    this.#entries.set(key, entry);
    askBest(entry, again);
  }
}

/**
 * What a Service claims, by key. Where two of its ports claim the same frontend, the first port
 * has it, and the other's is lost; within a port, `resolve` gives each address once.
 */
function* firstOfEach(
  forwardings: readonly Forwarding[],
): Generator<undefined, { wanted: Wanted; lost: Frontend[] }> {
  const wanted: Wanted = new Map();
  const lost: Frontend[] = [];
  for (const { family, frontends, servicePort } of forwardings) {
    for (const frontend of frontends) {
      const key = claimKey(family, servicePort.protocol, frontend);
      if (wanted.has(key)) lost.push(frontend);
      else wanted.set(key, { frontend, loser: servicePort });
    }
    yield;
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
