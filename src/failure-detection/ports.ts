/** The Service ports that are followed, and their endpoints, within limits. */

import { IPPROTO } from '../kernel/nft/constants.ts';
import { binary, destinationKey } from '../modes/elements.ts';
import { Address, type AddressKey, type CIDR, cidrContains, type Family } from '../net/address.ts';
import { addCount } from '../net/counts.ts';
import { EndpointFinder } from '../net/endpoint-finder.ts';
import { type EndpointKey, EndpointList } from '../net/endpoint-list.ts';
import type { Protocol } from '../net/protocol.ts';
import { specialUse } from '../net/special-address.ts';
import type { DetectionMode } from '../state/detection.ts';
import { type AddressKeys, keysOf } from '../state/node-sockets.ts';
import { type Forwarding, forwardingId } from '../state/types.ts';
import type { Counts } from './counts.ts';
import { Evidence, noCounts } from './evidence.ts';
import { type Member, Pool } from './pool.ts';

/**
 * The most endpoints that are followed: of one port, of one namespace, of all. An endpoint counts
 * for each port that has it.
 */
export const limits = { port: 1000, namespace: 2000, all: 8000 } as const;

/** An endpoint that is followed, for all ports that have it. */
export interface Followed {
  /** Key of its elements in the sets, as `binary` has it. */
  readonly id: string;
  readonly family: Family;
  readonly place: Place;
  readonly port: number;
  /** The kernel's counts, as last read. */
  counts: Counts;
  /** Our own probes, of all ports, that the kernel has counted or will count. */
  probes: number;
  users: number;
}

/** An address at which endpoints are followed. */
export class Place {
  readonly address: Address;
  /** The number of members of each namespace that has some. */
  readonly #members = new Map<string, number>();
  /** The namespace whose turn it is, and the number of that turn. */
  #holder = '';
  #turn = -1;

  constructor(address: Address) {
    this.address = address;
  }

  get isEmpty(): boolean {
    return this.#members.size === 0;
  }

  join(namespace: string): void {
    addCount(this.#members, namespace);
  }

  leave(namespace: string): void {
    addCount(this.#members, namespace, -1);
  }

  /**
   * Whether probes to this address are for the namespace to request in this turn. Namespaces take
   * turns, so that none uses up the probes of an address that is another one's pod.
   */
  isTurnOf(namespace: string, turn: number): boolean {
    if (this.#turn !== turn) {
      this.#turn = turn;
      this.#holder = [...this.#members.keys()][turn % this.#members.size]!;
    }
    return this.#holder === namespace;
  }
}

export interface PortMember extends Member {
  readonly namespace: string;
  readonly followed: Followed;
  /** The turn of its last regular probe; undefined: there was none. */
  probedTurn: number | undefined;
}

/** What a Service asks for. */
interface Asked {
  readonly mode: DetectionMode;
  readonly probes: boolean;
  /** How long the share of an endpoint grows after its return. */
  readonly growthMs: number;
}

type Pools = Pick<Forwarding, 'cluster' | 'local'>;

export interface FollowedPort {
  readonly id: string;
  /** `namespace/name` */
  readonly service: string;
  readonly namespace: string;
  readonly family: Family;
  readonly name: string;
  readonly protocol: Protocol;
  readonly pool: Pool<PortMember>;
  /** The index at which regular probes start, so that all endpoints get a turn. */
  nextProbe: number;
  /** The turn of the first regular probe; undefined: there was none. */
  probedSince: number | undefined;
  asked: Asked;
  members: ReadonlyMap<EndpointKey, PortMember>;
  /** Its endpoints: those of `cluster` first, then those that only `local` has. */
  pools: Pools;
  /** Endpoints that are not followed: there are too many. */
  leftOut: number;
  /** `#departures` when its endpoints were last compared. */
  compared: number;
  /** The last look: parts of shares, and which endpoints are silent. */
  seen: { readonly parts: string; readonly silent: string };
}

export class FollowedPorts {
  readonly #exemptions: Exemptions;
  readonly #ports = new Map<string, FollowedPort>();
  /** The number of endpoints of each port of which none found room, by id. */
  readonly #leftOut = new Map<string, number>();
  readonly #followed: Readonly<Record<Family, Map<string, Followed>>> = {
    IPv4: new Map(),
    IPv6: new Map(),
  };
  readonly #places = new Map<AddressKey, Place>();
  readonly #inNamespace = new Map<string, number>();
  /** Of all ports. */
  #members = 0;
  /** The number of endpoints that are no longer followed: each has made room for another. */
  #departures = 0;

  constructor(known: Known) {
    this.#exemptions = new Exemptions(known);
  }

  get size(): number {
    return this.#ports.size;
  }

  /** How many endpoints are not followed, because there are too many. */
  get leftOut(): number {
    let leftOut = 0;
    for (const count of this.#leftOut.values()) leftOut += count;
    for (const port of this.#ports.values()) leftOut += port.leftOut;
    return leftOut;
  }

  leftOutOf(family: Family, forwarding: string): number {
    const id = forwardingId(family, forwarding);
    return this.#ports.get(id)?.leftOut ?? this.#leftOut.get(id) ?? 0;
  }

  /** Those that were probed last come last. */
  get all(): Iterable<FollowedPort> {
    return this.#ports.values();
  }

  /** The port has had its turn with a probe. */
  probed(port: FollowedPort): void {
    if (this.#ports.delete(port.id)) this.#ports.set(port.id, port);
  }

  /** Endpoints by the key of their elements. */
  followed(family: Family): ReadonlyMap<string, Followed> {
    return this.#followed[family];
  }

  of(family: Family, forwarding: string): FollowedPort | undefined {
    return this.#ports.get(forwardingId(family, forwarding));
  }

  byId(id: string): FollowedPort | undefined {
    return this.#ports.get(id);
  }

  /**
   * Follows the endpoints of a Forwarding. Those that stay keep what is known of them. Undefined:
   * it has none that is followed, and its port is forgotten.
   */
  follow(forwarding: Forwarding, asked: Asked): FollowedPort | undefined {
    const { cluster, family, key, local } = forwarding;
    const id = forwardingId(family, key);
    const port = this.#ports.get(id) ?? newPort(id, forwarding, asked);
    port.asked = asked;
    this.#setMembers(port, { cluster, local });
    if (port.members.size === 0) {
      this.#ports.delete(id);
      if (port.leftOut > 0) this.#leftOut.set(id, port.leftOut);
      else this.#leftOut.delete(id);
      return undefined;
    }
    this.#leftOut.delete(id);
    if (!this.#ports.has(id)) this.#ports.set(id, port);
    return port;
  }

  forget(id: string): void {
    this.#leftOut.delete(id);
    const port = this.#ports.get(id);
    if (port === undefined) return;
    this.#ports.delete(id);
    for (const { followed } of port.members.values()) this.#leave(port.namespace, followed);
  }

  #setMembers(port: FollowedPort, pools: Pools): void {
    const { cluster, local } = pools;
    const isSame = port.pools.cluster.equals(cluster) && port.pools.local.equals(local);
    // There may be room now for endpoints that were left out, unless the port itself is full.
    const isFull = port.members.size >= limits.port || port.compared === this.#departures;
    if (isSame && (port.leftOut === 0 || isFull)) return;
    const isOne = local.equals(cluster);
    const lists = isOne ? [cluster] : [cluster, local];
    const finders = lists.map((list) => new EndpointFinder(list));
    const members = new Map<EndpointKey, PortMember>();
    for (const [key, member] of port.members) {
      if (finders.some((finder) => finder.has(key))) members.set(key, member);
      else this.#leave(port.namespace, member.followed);
    }
    for (const list of lists) this.#joinSome(port, list, members);
    const onlyLocal = isOne ? 0 : finders[0]!.missing(local).length;
    port.members = members;
    port.pools = pools;
    port.compared = this.#departures;
    port.leftOut = cluster.length + onlyLocal - members.size;
    port.pool.update([...members.values()]);
  }

  /** Adds as many endpoints as there is room for. */
  #joinSome(port: FollowedPort, list: EndpointList, members: Map<EndpointKey, PortMember>): void {
    for (let i = 0; i < list.length && members.size < limits.port; i += 1) {
      const key = list.key(i);
      if (members.has(key)) continue;
      const member = this.#join(port, list, i);
      if (member === undefined) return;
      members.set(key, member);
    }
  }

  /** Undefined: too many are followed. */
  #join(
    { family, namespace, protocol }: FollowedPort,
    list: EndpointList,
    index: number,
  ): PortMember | undefined {
    const inNamespace = this.#inNamespace.get(namespace) ?? 0;
    if (inNamespace >= limits.namespace || this.#members >= limits.all) return undefined;
    this.#inNamespace.set(namespace, inNamespace + 1);
    this.#members += 1;
    const address = Address.from(list.address(index));
    const port = list.port(index);
    const id = binary(destinationKey(address, IPPROTO[protocol], port));
    let followed = this.#followed[family].get(id);
    if (followed === undefined) {
      const place = this.#places.get(address.key) ?? new Place(address);
      this.#places.set(address.key, place);
      followed = { id, family, place, port, counts: noCounts, probes: 0, users: 0 };
      this.#followed[family].set(id, followed);
    }
    followed.users += 1;
    followed.place.join(namespace);
    const exemptions = this.#exemptions;
    return {
      key: list.key(index),
      text: list.text(index),
      namespace,
      evidence: new Evidence(followed.counts, followed.probes),
      followed,
      probedTurn: undefined,
      get exempt() {
        return exemptions.reasonOf(address, port);
      },
    };
  }

  #leave(namespace: string, followed: Followed): void {
    this.#departures += 1;
    this.#members -= 1;
    const left = this.#inNamespace.get(namespace)! - 1;
    if (left === 0) this.#inNamespace.delete(namespace);
    else this.#inNamespace.set(namespace, left);
    const { place } = followed;
    place.leave(namespace);
    if (place.isEmpty) this.#places.delete(place.address.key);
    followed.users -= 1;
    if (followed.users === 0) this.#followed[followed.family].delete(followed.id);
  }
}

function newPort(id: string, { family, servicePort }: Forwarding, asked: Asked): FollowedPort {
  const { name: service, namespace, port: name, protocol } = servicePort;
  return {
    ...{ id, service: `${namespace}/${service}`, namespace, family, name, protocol, asked },
    pool: new Pool(),
    nextProbe: 0,
    probedSince: undefined,
    members: new Map(),
    pools: { cluster: EndpointList.empty[family], local: EndpointList.empty[family] },
    leftOut: 0,
    compared: 0,
    seen: { parts: '', silent: '' },
  };
}

/** What is known at present. It is asked for each decision, and is the same until it changes. */
export interface Known {
  /** The addresses of this machine. */
  readonly interfaces: () => readonly Address[];
  /** Where pods may be. */
  readonly podCIDRs: () => readonly CIDR[];
  readonly serviceCIDRs: (family: Family) => readonly CIDR[];
  /** The Service (`namespace/name`) that has this frontend of TCP. */
  readonly ownerOf: (address: Address, port: number) => string | undefined;
}

export class Exemptions {
  readonly #known: Known;
  #interfaces: readonly Address[] = [];
  /** Keys of `#interfaces`: a node may have thousands. */
  #own: AddressKeys = new Set();

  constructor(known: Known) {
    this.#known = known;
  }

  /** Why the endpoint is neither probed nor ejected at present; undefined: it may be. */
  reasonOf(address: Address, port: number): string | undefined {
    const { ownerOf, podCIDRs, serviceCIDRs } = this.#known;
    const isIn = (cidr: CIDR): boolean => cidrContains(cidr, address);
    const special = specialUse(address);
    if (special !== undefined) return `it is ${special}`;
    if (this.#isOwn(address)) return 'it is an address of this node';
    if (serviceCIDRs(address.family).some(isIn)) return 'it is in a ServiceCIDR';
    const owner = ownerOf(address, port);
    if (owner !== undefined) return `it is an address of Service ${owner}`;
    return podCIDRs().some(isIn) ? undefined : 'it is in no pod CIDR that this node knows';
  }

  #isOwn({ key }: Address): boolean {
    const interfaces = this.#known.interfaces();
    if (interfaces !== this.#interfaces) {
      this.#interfaces = interfaces;
      this.#own = keysOf(interfaces);
    }
    return this.#own.has(key);
  }
}
