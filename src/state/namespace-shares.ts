/**
 * Limits what the Services of one namespace get together, and what all namespaces do: a hundred of
 * the largest ones would take all memory of a node. Once the shares rest they depend on the present
 * objects alone, so that all nodes serve the same part, in whatever order the objects arrived.
 */
import { type Address, type Family, families } from '../net/address.ts';
import type { List } from '../net/list.ts';
import { protocols } from '../net/protocol.ts';
import {
  countFrontends,
  limitOf,
  type ServiceLimits,
  serviceSlotsMax,
  slotsWithin,
} from './budget.ts';
import { asksForSlots, slotsAsked } from './deal.ts';
import { hasFamily, memoriesOfPort, poolsOfFrontend } from './policy.ts';
import type { ClusterState } from './store.ts';
import { type EndpointSlice, namespaceOf, type Service } from './types.ts';

/** The limits that are added up; the other one is about one frontend. */
type Limits = Omit<ServiceLimits, 'frontendEndpoints'>;
type Summed = keyof Limits | 'slots';
const summed: readonly Summed[] = [
  'frontends',
  'endpoints',
  'sourceRanges',
  'affinityPorts',
  'slots',
];

/** For each of `summed`. */
type Numbers = Readonly<Record<Summed, number>>;

interface NamespaceSharesOptions {
  /** Of one Service. */
  readonly limits: Limits;
  /** A namespace gets this many times as much. */
  readonly factor: number;
  /** As of `Clock`; default: shares grow immediately. */
  readonly after?: (delayMs: number, call: () => void) => () => void;
  /** Services are touched whose limits have grown. */
  readonly state: Pick<ClusterState, 'touch'>;
}

/** All namespaces together get what this many namespaces may have. */
export const namespacesOfNode = 4;

/**
 * A Service can always have a 64th of its limits, and a namespace a 64th of what it may have:
 * smaller ones are not counted.
 */
const halvingsMax = 6;

/**
 * Shares shrink immediately and grow after this time. All large Services of the namespace are
 * resolved again each time, which one small change of one of them can cause.
 */
const growthDelayMs = 30_000;

const noServices: readonly string[] = [];

export class NamespaceShares {
  readonly #options: NamespaceSharesOptions;
  readonly #limits: Numbers;
  /** What a namespace may have where others ask for little. */
  readonly #totals: Numbers;
  /** What is not counted. */
  readonly #small: Numbers;
  /** Namespaces with large Services. */
  readonly #namespaces = new Map<string, Group>();
  /** All of them; its members are those that ask for much. */
  readonly #node: Group;

  constructor(options: NamespaceSharesOptions) {
    this.#options = options;
    const limits = { ...options.limits, slots: serviceSlotsMax };
    this.#limits = limits;
    this.#totals = ofEach((what) => limits[what] * options.factor);
    this.#small = ofEach((what) => halved(limits[what], halvingsMax));
    this.#node = new Group(this.#totals);
  }

  /** Ends all timers. */
  stop(): void {
    for (const { cancelGrowth } of [this.#node, ...this.#namespaces.values()]) cancelGrowth?.();
  }

  /** The limits of each Service of the namespace; undefined: those of any Service. */
  of(namespace: string): Numbers | undefined {
    return this.#namespaces.get(namespace)?.shares;
  }

  /** What all Services of a namespace get together. */
  total(what: Summed): number {
    return (this.#node.shares ?? this.#totals)[what];
  }

  /**
   * Counts the Service `key` (`namespace/name`); undefined: it is gone. Must be called before it is
   * resolved. `slices` are its own.
   * @returns the keys of other Services whose limits have changed by that
   */
  count(
    key: string,
    service: Service | undefined,
    slices: readonly EndpointSlice[],
  ): readonly string[] {
    const sizes = service && this.#sizes(service, slices);
    const changed = this.#set(key, namespaceOf(key), sizes);
    return changed.length === 0 ? changed : changed.filter((other) => other !== key);
  }

  #set(service: string, name: string, sizes: Numbers | undefined): readonly string[] {
    let namespace = this.#namespaces.get(name);
    // As nearly all are: it is small, and was before.
    if (sizes === undefined && namespace?.has(service) !== true) return noServices;
    if (namespace === undefined) {
      namespace = new Group(this.#limits);
      this.#namespaces.set(name, namespace);
    }
    namespace.set(service, sizes);
    this.#node.set(name, counted(namespace.size, this.#totals));
    if (namespace.isEmpty) {
      namespace.cancelGrowth?.();
      this.#namespaces.delete(name);
    }
    const mayGrow = this.#options.after === undefined;
    const others = this.#settleNode(mayGrow);
    return [...others, ...this.#settle(name, mayGrow)];
  }

  /** Returns the Services, of all namespaces, that get more or less by what namespaces get now. */
  #settleNode(mayGrow: boolean): readonly string[] {
    const namespaces = this.#node.settle((what) => this.#totals[what] * namespacesOfNode, mayGrow);
    this.#growLater(this.#node, () => this.#settleNode(true));
    return namespaces.flatMap((name) => this.#settle(name, mayGrow));
  }

  /** Returns the namespace's Services that get more or less. */
  #settle(name: string, mayGrow: boolean): readonly string[] {
    const namespace = this.#namespaces.get(name);
    if (namespace === undefined) return noServices;
    const changed = namespace.settle((what) => this.total(what), mayGrow);
    this.#growLater(namespace, () => this.#settle(name, true));
    return changed;
  }

  /** `settle` returns the Services that get more. */
  #growLater(group: Group, settle: () => readonly string[]): void {
    const { after, state } = this.#options;
    if (!group.canGrow || after === undefined) return;
    group.cancelGrowth ??= after(growthDelayMs, () => {
      group.cancelGrowth = undefined;
      for (const service of settle()) state.touch(service);
    });
  }

  /** What a Service asks for; undefined: little of all. */
  #sizes(service: Service, slices: readonly EndpointSlice[]): Numbers | undefined {
    if (this.#isSmall(service, slices)) return undefined;
    const found = families
      .filter((family) => hasFamily(service.clusterIPs, family))
      .map((family) => asked(service, slices, family, this.#limits));
    const sizes = ofEach((what) => Math.max(...found.map((one) => one[what])));
    return counted(sizes, this.#limits);
  }

  /** Whether the Service is small without a doubt. */
  #isSmall(service: Service, slices: readonly EndpointSlice[]): boolean {
    const { clusterIPs, externalIPs, loadBalancerIPs, loadBalancerSourceRanges, ports } = service;
    const { affinityPorts, endpoints, frontends, slots, sourceRanges } = this.#small;
    const addresses = clusterIPs.length + externalIPs.length + loadBalancerIPs.length;
    const most =
      ports.length * (addresses + 1) + (service.portRange ? addresses * protocols.length : 0);
    if (most > frontends) return false;
    if (ports.length * memoriesOfPort(service, addresses) > affinityPorts) return false;
    let length = 0;
    for (const slice of slices) length += slice.length;
    if (2 * most * slotsOfPool(service, slices, length) > slots) return false;
    return most * length <= endpoints && most * loadBalancerSourceRanges.length <= sourceRanges;
  }
}

/** What its members ask for, and get: the Services of one namespace, or all namespaces. */
class Group {
  /** The limits of each member; undefined: those of any. */
  shares: Numbers | undefined;
  /** Shares could be larger than they are. */
  canGrow = false;
  /** Set while `canGrow` is to take effect. */
  cancelGrowth: (() => void) | undefined;
  /** Of one member. */
  readonly #limits: Numbers;
  /** What each large member asks for. */
  readonly #sizes = new Map<string, Numbers>();
  readonly #sums: Readonly<Record<Summed, Sum>>;

  constructor(limits: Numbers) {
    this.#limits = limits;
    this.#sums = ofEach((what) => new Sum(limits[what]));
  }

  get isEmpty(): boolean {
    return this.#sizes.size === 0;
  }

  /** What all members ask for together. */
  get size(): Numbers {
    return ofEach((what) => this.#sums[what].size);
  }

  has(member: string): boolean {
    return this.#sizes.has(member);
  }

  set(member: string, sizes: Numbers | undefined): void {
    const previous = this.#sizes.get(member);
    for (const what of summed) {
      this.#sums[what].add(previous?.[what] ?? 0, -1);
      this.#sums[what].add(sizes?.[what] ?? 0, 1);
    }
    if (sizes === undefined) this.#sizes.delete(member);
    else this.#sizes.set(member, sizes);
  }

  /** Brings the shares up to date. Returns the members that get more or less by it. */
  settle(totalOf: (what: Summed) => number, mayGrow: boolean): readonly string[] {
    const before = this.shares ?? this.#limits;
    const fitting = ofEach((what) => this.#sums[what].shareWithin(totalOf(what)));
    const after = mayGrow ? fitting : ofEach((what) => Math.min(before[what], fitting[what]));
    this.canGrow = summed.some((what) => fitting[what] > after[what]);
    const changed = summed.filter((what) => after[what] !== before[what]);
    if (changed.length === 0) return noServices;
    this.shares = summed.every((what) => after[what] === this.#limits[what]) ? undefined : after;
    const members: string[] = [];
    for (const [member, sizes] of this.#sizes) {
      const differs = (what: Summed): boolean => sizes[what] > Math.min(before[what], after[what]);
      if (changed.some(differs)) members.push(member);
    }
    return members;
  }
}

/** Adds up sizes, each at most the limit, and more than the smallest share of it. */
class Sum {
  readonly #limit: number;
  /** By the most halvings of the limit after which the size still fits: how many, and their sum. */
  readonly #counts = new Array<number>(halvingsMax).fill(0);
  readonly #sums = new Array<number>(halvingsMax).fill(0);

  constructor(limit: number) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#sums.reduce((sum, size) => sum + size, 0);
  }

  /** 0 does nothing. */
  add(size: number, sign: 1 | -1): void {
    if (size === 0) return;
    let halvings = 0;
    while (halvings + 1 < halvingsMax && size <= halved(this.#limit, halvings + 1)) halvings += 1;
    this.#counts[halvings]! += sign;
    this.#sums[halvings]! += sign * size;
  }

  /** The largest share with which all together fit into `total`; or the smallest one. */
  shareWithin(total: number): number {
    for (let halvings = 0; halvings < halvingsMax; halvings += 1) {
      const share = halved(this.#limit, halvings);
      let taken = 0;
      for (let i = 0; i < halvingsMax; i += 1) {
        taken += i < halvings ? this.#counts[i]! * share : this.#sums[i]!;
      }
      if (taken <= total) return share;
    }
    return halved(this.#limit, halvingsMax);
  }
}

function halved(limit: number, halvings: number): number {
  return Math.max(1, Math.floor(limit / 2 ** halvings));
}

/** Each at most its limit; 0 = little. Undefined: little of all. */
function counted(sizes: Numbers, limits: Numbers): Numbers | undefined {
  const found = ofEach((what) => {
    const size = sizes[what];
    return size <= halved(limits[what], halvingsMax) ? 0 : Math.min(size, limits[what]);
  });
  return summed.some((what) => found[what] > 0) ? found : undefined;
}

function ofEach<T>(of: (what: Summed) => T): Readonly<Record<Summed, T>> {
  return {
    frontends: of('frontends'),
    endpoints: of('endpoints'),
    sourceRanges: of('sourceRanges'),
    affinityPorts: of('affinityPorts'),
    slots: of('slots'),
  };
}

/** The most slots of one pool of the Service; 0: each endpoint has one. */
function slotsOfPool(
  { balancing }: Service,
  slices: readonly EndpointSlice[],
  endpoints: number,
): number {
  const hasWeights = slices.some(({ weight }) => weight !== undefined);
  return asksForSlots(balancing, hasWeights) ? slotsAsked(balancing, endpoints) : 0;
}

/** What a Service asks for in one family. It may get less for other reasons than its size. */
function asked(
  service: Service,
  slices: readonly EndpointSlice[],
  family: Family,
  limits: Numbers,
): Numbers {
  const { clusterIPs, externalIPs, loadBalancerIPs, loadBalancerSourceRanges } = service;
  const ports = service.ports.length;
  const addresses = [clusterIPs, externalIPs, loadBalancerIPs].reduce(
    (sum, list) => sum + list.filter((address) => address.family === family).length,
    0,
  );
  const nodePorts = service.type === 'ClusterIP' ? 0 : ports;
  // One for each protocol at most.
  const ranges = service.portRange ? addresses * Math.min(ports, protocols.length) : 0;
  const frontends = Math.min(
    countFrontends({ ports, nodePorts, addresses }) + ranges,
    limitOf('frontends', limits, ports + addresses),
  );
  let endpoints = 0;
  for (const slice of slices) if (slice.family === family) endpoints += slice.length;
  const named = ports + addresses + endpoints;
  const pools = poolsOfFrontend(service);
  const guards = (list: List<Address>): number =>
    list.filter((address) => address.family === family).length * ports;
  const others = service.guardsAll ? guards(externalIPs) + nodePorts : 0;
  return {
    frontends,
    endpoints: Math.min(limitOf('endpoints', limits, named, pools), endpoints * frontends),
    sourceRanges: loadBalancerSourceRanges.length * Math.max(1, guards(loadBalancerIPs) + others),
    affinityPorts: ports * memoriesOfPort(service, addresses),
    slots: Math.min(
      slotsWithin(named),
      pools * frontends * slotsOfPool(service, slices, endpoints),
    ),
  };
}
