/**
 * Who holds a frontend that several Services claim: the same external IP and port, load-balancer
 * address, node port or, in hand-written manifests, ClusterIP. Exactly one Service holds it. The
 * order in which Services came does not matter: a ClusterIP comes before a load balancer's address,
 * and that before an external IP, which anybody may ask for (CVE-2020-8554). Among equals the
 * Service that was created first holds it, then the first by name. At addresses of the node, node
 * ports come before other frontends.
 */
import { addressKey, type Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import { type ClaimKey, claimKey, nodePortClaim, nodePortsOf } from './claim-key.ts';
import type { Conflict } from './conflict.ts';
import {
  askBest,
  bestOf,
  claimOf,
  type Entry,
  holderOf,
  ranks,
  release,
  take,
  withClaim,
  withoutClaim,
} from './contest.ts';
import { type Keeper, Neighbours, type NodePortKey, pending } from './neighbours.ts';
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
   * Run it when the Forwardings were handed over: only then others may have what the Service gives
   * up. Returns keys of Services to resolve and claim again in the same sync, because they have to
   * give up a frontend or can have one now.
   */
  readonly concede: () => Generator<undefined, readonly string[]>;
}

/** Tells who holds frontends. */
export type ReadonlyClaims = Pick<Claims, 'holderOf' | 'claimantOf'>;

/** What a Service wants to hold. */
interface Want {
  readonly frontend: Frontend;
  /** The port that does not get it if another Service does. */
  readonly loser: ServicePortName;
  /** The node port of the same number, where node ports are open on the address. */
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

/** Stands for this process as the holder of the ports that it listens on. */
const proxy = 'this proxy';

/**
 * A frontend gets a new holder in three steps, so that two Forwardings never hold it at the same
 * time. The better claimant makes the holder claim again. The holder gives the frontend up, and
 * makes the better claimant claim again. That one then gets it. The cost of a call depends on the
 * Service's own frontends only. Calls for other Services may come between the steps of a generator.
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
      name,
      createdMs,
      wanted,
      lost,
      again,
      near,
      conceded: [],
      conflicts: [],
    };
    this.#listen(name, forwardings[0]?.healthCheckNodePort ?? 0, again);
    // Node ports first: they come before what the Service itself claims at the node's addresses.
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
   * Gives up all claims of a Service that is gone. Returns the keys of Services to resolve and
   * claim again.
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
    sockets: NodeSockets | undefined,
  ): string | undefined {
    const { name, namespace, protocol } = servicePort;
    const known = sockets ?? noSockets;
    const nodePort = nodePortNear(family, protocol, frontend, known);
    if (nodePort !== undefined && isListening(protocol, frontend, known)) return proxy;
    const keeper = nodePort && this.#keeperOf(nodePort, objectKey(namespace, name));
    if (keeper !== undefined && keeper !== pending) return keeper;
    const entry = this.#entries.get(claimKey(family, protocol, frontend));
    return entry && bestOf(entry).service;
  }

  /** The key of the Service that holds the frontend or, if none does, that is to have it. */
  claimantOf(
    family: Family,
    protocol: Protocol,
    frontend: Pick<Frontend, 'address' | 'port'>,
  ): string | undefined {
    const entry = this.#entries.get(claimKey(family, protocol, frontend));
    return entry && (holderOf(entry) ?? bestOf(entry)).service;
  }

  /** Claims the frontend, and takes it if this is the best claim and nobody holds it. */
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

  /** Makes others give up frontends at this node port's addresses. Returns whether there are any. */
  #isBlocked(key: ClaimKey, { address }: Frontend, { name, again }: Turn): boolean {
    if (address !== undefined) return false;
    let isBlocked = false;
    for (const other of this.#neighbours.inside(String(key), name)) {
      isBlocked = true;
      again.add(other);
    }
    return isBlocked;
  }

  /** Whether a node port, or a port of this process, keeps the frontend from its Service. */
  #isKeptOut({ frontend, loser, nodePort }: Want, turn: Turn, sockets: NodeSockets): boolean {
    if (nodePort === undefined) return false;
    const { conflicts, name, near, wanted } = turn;
    const own = wanted.get(nodePort);
    // In modes without wildcards two ports of the Service would have the same frontend.
    if (own !== undefined && own.loser !== loser) return true;
    const isOurs = isListening(loser.protocol, frontend, sockets);
    const keeper = isOurs ? proxy : this.#keeperOf(nodePort, name);
    near.add(nodePort);
    const holder = this.#neighbours.note(nodePort, name, keeper);
    if (holder !== undefined) conflicts.push({ loser, frontend, holder });
    return keeper !== undefined;
  }

  /** Which other Service keeps the number of a node port from this one. */
  #keeperOf(nodePort: NodePortKey, name: string): Keeper | undefined {
    const entry = this.#entries.get(nodePort);
    const best = entry && bestOf(entry).service;
    if (best !== undefined && best !== name) return best;
    for (const service of this.#healthChecks.get(nodePort) ?? []) {
      if (service !== name) return service;
    }
    const holder = entry && holderOf(entry);
    return holder === undefined || holder.service === name ? undefined : pending;
  }

  #recheck(nodePort: ClaimKey, again: Set<string>): void {
    const key = String(nodePort);
    const keeperOf = (service: string) => this.#keeperOf(key, service);
    for (const service of this.#neighbours.changed(key, keeperOf)) again.add(service);
  }

  /** Records the health-check node port of the Service; 0 = none. */
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

  /** Lets node ports have the frontends that the Service has given up at the node's addresses. */
  #leave(name: string, near: ReadonlySet<NodePortKey>, again: Set<string>): void {
    for (const key of this.#neighbours.handedOver(name, near)) {
      const entry = this.#entries.get(key);
      if (entry !== undefined) askBest(entry, again);
      // The node port may have gone meanwhile.
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

  /** Records this Service's claim to the frontend, and returns all claims to it. */
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
 * The claims of a Service, by key. When two of its ports claim the same frontend, the first port
 * gets it. Within a port, `resolve` gives each address once.
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

/** The node port with the frontend's number, where node ports are open on its address. */
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

/** Whether this process itself listens at the frontend. */
function isListening(protocol: Protocol, { port }: Frontend, { listening }: NodeSockets): boolean {
  return protocol === 'TCP' && listening.has(port);
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
