/**
 * Who holds a frontend that several Services claim: the same external IP and port, load-balancer
 * address, node port or, in hand-written manifests, ClusterIP. Exactly one holds it, and which one
 * does not depend on the order in which the Services came: a ClusterIP, then a load balancer's
 * address, then an external IP, which anybody may ask for (CVE-2020-8554); then the Service that
 * was created first, then by name. At addresses of the node, node ports come before what others
 * ask for there.
 */
import { addressKey, type Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import type { Conflict } from './conflict.ts';
import {
  askBest,
  bestOf,
  claimOf,
  type Entry,
  holderOf,
  release,
  take,
  withClaim,
  withoutClaim,
} from './contest.ts';
import { frontendKey, nodePortKey } from './frontend-key.ts';
import { Neighbours, type NodePortKey } from './neighbours.ts';
import { type NodeSockets, noSockets } from './node-sockets.ts';
import {
  type Forwarding,
  type Frontend,
  objectKey,
  type Service,
  type ServicePortName,
} from './types.ts';

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

/** What a Service wants to hold. */
interface Want {
  readonly frontend: Frontend;
  /** The port that does not get it if another Service does. */
  readonly loser: ServicePortName;
  /** Where node ports are open on the address: the one of this number. */
  readonly nodePort: NodePortKey | undefined;
}

type Wanted = Map<ClaimKey, Want>;

/** A call of `claim`. */
interface Turn {
  readonly name: string;
  readonly createdMs: number;
  readonly wanted: Wanted;
  readonly lost: Frontend[];
  readonly again: Set<string>;
  readonly conceded: ClaimKey[];
  readonly conflicts: Conflict[];
  /** Node ports that the Service is a neighbour of. */
  readonly near: Set<NodePortKey>;
}

/** Ascending: who has the lower rank has the better claim. */
const ranks = {
  clusterIP: 0,
  loadBalancerIP: 1,
  nodePort: 2,
  externalIP: 3,
} as const satisfies Record<Frontend['kind'], number>;

/** Holds what this process itself listens on. */
const proxy = 'this proxy';

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
  readonly #neighbours = new Neighbours();
  /** Services whose health-check node port has the number of this node port. */
  readonly #healthChecks = new Map<NodePortKey, Set<string>>();
  readonly #healthCheckOf = new Map<string, number>();

  /** `forwardings` are all those of the Service, of every port and family. */
  *claim(
    { key: name, createdMs }: Pick<Service, 'key' | 'createdMs'>,
    forwardings: readonly Forwarding[],
    sockets: NodeSockets = noSockets,
  ): Generator<undefined, ClaimResult> {
    const { wanted, lost } = yield* firstOfEach(forwardings, sockets);
    const again = new Set<string>();
    const near = new Set<NodePortKey>();
    const turn: Turn = {
      ...{ name, createdMs, wanted, lost, again, near },
      conceded: [],
      conflicts: [],
    };
    this.#listen(name, forwardings[0]?.healthCheckNodePort ?? 0, again);
    // Node ports first: they may keep out what the Service itself claims at the node's addresses.
    for (const [key, want] of wanted) {
      if (want.frontend.address !== undefined) continue;
      this.#contend(key, want, turn);
      yield;
    }
    for (const [key, want] of wanted) {
      if (want.frontend.address === undefined) continue;
      if (this.#isKeptOut(want, turn, sockets)) {
        lost.push(want.frontend);
        wanted.delete(key);
      } else {
        this.#contend(key, want, turn);
      }
      yield;
    }
    return {
      forwardings: lost.length === 0 ? forwardings : without(forwardings, lost),
      conflicts: turn.conflicts,
      concede: () => this.#concede(turn),
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
    this.#listen(name, 0, again);
    this.#leave(name, new Set(), again);
    return [...again];
  }

  /**
   * Who has a frontend that a Service asks for and does not hold: the key of a Service, perhaps of
   * itself, by another port; or `this proxy`. Undefined = nobody, for the moment.
   */
  holderOf(
    { family, servicePort }: Forwarding,
    frontend: Frontend,
    sockets: NodeSockets = noSockets,
  ): string | undefined {
    const { name, namespace, protocol } = servicePort;
    const nodePort = nodePortNear(family, protocol, frontend, sockets);
    if (nodePort !== undefined && isListening(protocol, frontend, sockets)) return proxy;
    const keeper = nodePort && this.#keeperOf(nodePort, objectKey(namespace, name));
    if (keeper) return keeper;
    const entry = this.#entries.get(claimKey(family, protocol, frontend));
    return entry && bestOf(entry).service;
  }

  /** Claims the frontend, and takes it if it can be had. */
  #contend(key: ClaimKey, { frontend, loser }: Want, turn: Turn): void {
    const { again, conceded, conflicts, lost, name } = turn;
    const entry = this.#enter(key, frontend.kind, turn);
    const mine = claimOf(entry, name)!;
    const best = bestOf(entry);
    if (best !== mine) {
      if (mine.held) conceded.push(key);
      else askBest(entry, again);
    } else if (mine.held || !this.#isBlocked(key, frontend, turn)) {
      take(entry, mine, again);
    }
    if (best !== mine || !mine.held) lost.push(frontend);
    const holder = best === mine ? undefined : best.service;
    if (holder !== undefined && holder !== mine.lostTo) {
      conflicts.push({ loser, frontend, holder });
    }
    mine.lostTo = holder;
  }

  /** Asks those to leave that are still at addresses where this node port is. */
  #isBlocked(key: ClaimKey, { address }: Frontend, { name, again }: Turn): boolean {
    if (address !== undefined) return false;
    let isBlocked = false;
    for (const other of this.#neighbours.inside(String(key), name)) {
      isBlocked = true;
      again.add(other);
    }
    return isBlocked;
  }

  /** Whether something at the node's own addresses comes before what an address and port asks for. */
  #isKeptOut({ frontend, loser, nodePort }: Want, turn: Turn, sockets: NodeSockets): boolean {
    if (nodePort === undefined) return false;
    const { conflicts, name, near, wanted } = turn;
    const own = wanted.get(nodePort);
    // In modes without wildcards two ports of the Service would have the same frontend.
    if (own !== undefined && own.loser !== loser) return true;
    const isOurs = isListening(loser.protocol, frontend, sockets);
    const keeper = isOurs ? proxy : this.#keeperOf(nodePort, name);
    near.add(nodePort);
    if (this.#neighbours.note(nodePort, name, keeper)) {
      conflicts.push({ loser, frontend, holder: keeper! });
    }
    return keeper !== undefined;
  }

  /** Who has the number of a node port, if that is another Service; '' = one that is to give it up. */
  #keeperOf(nodePort: NodePortKey, name: string): string | undefined {
    const entry = this.#entries.get(nodePort);
    const best = entry && bestOf(entry).service;
    if (best !== undefined && best !== name) return best;
    for (const service of this.#healthChecks.get(nodePort) ?? []) {
      if (service !== name) return service;
    }
    const holder = entry && holderOf(entry);
    return holder === undefined || holder.service === name ? undefined : '';
  }

  #recheck(nodePort: ClaimKey, again: Set<string>): void {
    const key = String(nodePort);
    const keeperOf = (service: string) => this.#keeperOf(key, service);
    for (const service of this.#neighbours.changed(key, keeperOf)) again.add(service);
  }

  /** The health checks of the Service are answered on this port of the node; 0 = on none. */
  #listen(name: string, port: number, again: Set<string>): void {
    const before = this.#healthCheckOf.get(name) ?? 0;
    if (before === port) return;
    if (port === 0) this.#healthCheckOf.delete(name);
    else this.#healthCheckOf.set(name, port);
    for (const key of nodePortsOf(before)) {
      const services = this.#healthChecks.get(key);
      services?.delete(name);
      if (services?.size === 0) this.#healthChecks.delete(key);
      this.#recheck(key, again);
    }
    for (const key of nodePortsOf(port)) {
      const services = this.#healthChecks.get(key) ?? new Set();
      this.#healthChecks.set(key, services.add(name));
      this.#recheck(key, again);
    }
  }

  /** Lets node ports have what the Service has given up at the node's addresses. */
  #leave(name: string, near: ReadonlySet<NodePortKey>, again: Set<string>): void {
    for (const key of this.#neighbours.handedOver(name, near)) {
      const entry = this.#entries.get(key);
      if (entry !== undefined) askBest(entry, again);
      // Whoever kept it out may have gone before it was out.
      this.#recheck(key, again);
    }
  }

  *#concede(turn: Turn): Generator<undefined, readonly string[]> {
    const { again, conceded, name, near, wanted } = turn;
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
    this.#leave(name, near, again);
    return [...again];
  }

  /** Makes sure of this Service's claim to the frontend, and returns all claims to it. */
  #enter(key: ClaimKey, kind: Frontend['kind'], { again, createdMs, name }: Turn): Entry {
    const known = this.#entries.get(key);
    const old = claimOf(known, name);
    const rank = ranks[kind];
    if (known && old?.createdMs === createdMs && old.rank === rank) return known;
    const { held, lostTo } = old ?? { held: false, lostTo: undefined };
    const entry = withClaim(old === undefined ? known : withoutClaim(known, old), {
      service: name,
      createdMs,
      rank,
      held,
      lostTo,
    });
    this.#entries.set(key, entry);
    if (kind === 'nodePort') this.#recheck(key, again);
    return entry;
  }

  #withdraw(key: ClaimKey, service: string, again: Set<string>): void {
    const known = this.#entries.get(key);
    const old = claimOf(known, service);
    if (old === undefined) return;
    const entry = withoutClaim(known, old);
    if (entry === undefined) {
      this.#entries.delete(key);
    } else {
      this.#entries.set(key, entry);
      askBest(entry, again);
    }
    if (old.rank === ranks.nodePort) this.#recheck(key, again);
  }
}

/**
 * What a Service claims, by key. Where two of its ports claim the same frontend, the first port
 * has it, and the other's is lost; within a port, `resolve` gives each address once.
 */
function* firstOfEach(
  forwardings: readonly Forwarding[],
  sockets: NodeSockets,
): Generator<undefined, { wanted: Wanted; lost: Frontend[] }> {
  const wanted: Wanted = new Map();
  const lost: Frontend[] = [];
  for (const { family, frontends, servicePort } of forwardings) {
    const { protocol } = servicePort;
    for (const frontend of frontends) {
      const key = claimKey(family, protocol, frontend);
      if (wanted.has(key)) {
        lost.push(frontend);
        continue;
      }
      const nodePort = nodePortNear(family, protocol, frontend, sockets);
      wanted.set(key, { frontend, loser: servicePort, nodePort });
    }
    yield;
  }
  return { wanted, lost };
}

/** Where node ports are open on the frontend's address: the one of its number. */
function nodePortNear(
  family: Family,
  protocol: Protocol,
  { address, kind, port }: Frontend,
  { nodePorts }: NodeSockets,
): NodePortKey | undefined {
  const isNear =
    address !== undefined && kind !== 'clusterIP' && nodePorts.has(addressKey(address));
  return isNear ? nodePortClaim(family, protocol, port) : undefined;
}

/** This process itself listens there. */
function isListening(protocol: Protocol, { port }: Frontend, { listening }: NodeSockets): boolean {
  return protocol === 'TCP' && listening.has(port);
}

const protocolNumbers = { TCP: 0, UDP: 1, SCTP: 2 } as const satisfies Record<Protocol, number>;

/** For an IPv4 address a number, because strings of tens of thousands of Services take memory. */
function claimKey(family: Family, protocol: Protocol, frontend: Frontend): ClaimKey {
  const key = frontendKey(frontend);
  // The protocol goes above the 48 bits of address and port.
  if (typeof key === 'number' && key >= 0) return protocolNumbers[protocol] * 2 ** 48 + key;
  return `${family} ${protocol} ${key}`;
}

function nodePortClaim(family: Family, protocol: Protocol, port: number): NodePortKey {
  return `${family} ${protocol} ${nodePortKey(port)}`;
}

/** Node ports of a health-check node port, which answers in both families; 0 = none. */
function nodePortsOf(healthCheckNodePort: number): readonly NodePortKey[] {
  if (healthCheckNodePort === 0) return [];
  return (['IPv4', 'IPv6'] as const).map((family) =>
    nodePortClaim(family, 'TCP', healthCheckNodePort),
  );
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
