/**
 * Creates Forwardings from records, by the rules of behaviour document section 5, once for all
 * modes. Pure.
 */
import {
  type Address,
  type AddressKey,
  type CIDR,
  cidrKey,
  type Family,
  families,
} from '../net/address.ts';
import { rangesInSteps } from '../net/address-ranges.ts';
import type { EndpointList } from '../net/endpoint-list.ts';
import type { List } from '../net/list.ts';
import {
  allotFrontends,
  countFrontends,
  type Excess,
  limitOf,
  noLimits,
  type ServiceLimits,
  serviceSlotsMax,
  shareOf,
  slotsWithin,
  unaskedSlotsMax,
} from './budget.ts';
import { CandidateIndex, portKey, portsAStep } from './candidates.ts';
import type { Pools } from './categorise.ts';
import { asksForSlots, type DealingHere, dealInSteps, type OfEndpoints } from './deal.ts';
import type { EndpointHealth } from './detection.ts';
import { allowedExternalIPs, type ExternalIPRules } from './external-ips.ts';
import type { Candidates, Here } from './gathered.ts';
import { guards } from './guards.ts';
import type { NamespaceShares } from './namespace-shares.ts';
import { type NodeSockets, noSockets } from './node-sockets.ts';
import { type PortPaths, type PortPolicy, pathsOf } from './paths.ts';
import {
  hasFamily,
  healthCheckNodePort,
  memoriesOfPort,
  poolsOfFrontend,
  portPolicies,
} from './policy.ts';
import { beginsRange, rangeRefusal } from './port-range.ts';
import { PortSharing } from './port-sharing.ts';
import { finish } from './steps.ts';
import {
  byKey,
  type EndpointSlice,
  type Forwarding,
  type Frontend,
  forwardingKey,
  type Service,
  type ServicePort,
} from './types.ts';

/** What a Forwarding depends on, other than its Service and EndpointSlices. */
export interface ResolveContext extends Here {
  /** This node's own addresses, which may be in a load balancer's source ranges. */
  readonly nodeAddresses: readonly Address[];
  /** False = spec.externalIPs of Services get no frontends (gate AllowServiceExternalIPs). */
  readonly externalIPsEnabled: boolean;
  /** Which external IPs get frontends; default: all. */
  readonly externalIPRules?: ExternalIPRules;
  /** Default: nothing is known of the node. */
  readonly nodeSockets?: NodeSockets;
  /** Default: none. */
  readonly limits?: ServiceLimits;
  /** Default: Services of a namespace do not share. */
  readonly shares?: Pick<NamespaceShares, 'of' | 'total'> | undefined;
  /** How the mode that runs can share connections out; default: in every way. */
  readonly dealing?: DealingHere | undefined;
  /** The part of endpoints whose share grows, at present; default: none. See `SlowStarts`. */
  readonly starting?: OfEndpoints | undefined;
  /** Connections to them, for `least-connections`; default: slots do not follow these. */
  readonly open?: OfEndpoints | undefined;
  /** Endpoints that do not answer, at present; default: none. */
  readonly health?: EndpointHealth | undefined;
}

/** The resolved state of a Service on this node. */
export interface Resolved {
  readonly forwardings: Forwarding[];
  /** What it does not get because of the limits of one Service. */
  readonly excess: readonly Excess[];
  /** Why ranges of its ports are not served, each once. */
  readonly rangeRefusals: readonly string[];
}

/** The input from which a Forwarding was resolved, to explain it. */
export interface Seen {
  readonly port: ServicePort;
  readonly policy: PortPolicy;
  readonly candidates: Candidates;
  readonly forwarding: Forwarding;
  /** Why the range that begins at the port is not served; undefined: it is, or there is none. */
  readonly rangeRefusal: string | undefined;
}

/**
 * One Forwarding for each port of the Service in each family in which it has a ClusterIP: IPv4
 * first, ports in the Service's order. `slices` are this Service's, in any order.
 */
export function resolve(
  service: Service,
  slices: readonly EndpointSlice[],
  context: ResolveContext,
): Forwarding[] {
  return finish(resolveInSteps(service, slices, context)).forwardings;
}

/**
 * Like `resolve`, in steps: each is a slice, a port or some endpoints, and a Service with few of each
 * takes one step. The cost is linear in the size of the objects.
 */
export function* resolveInSteps(
  service: Service,
  slices: readonly EndpointSlice[],
  context: ResolveContext,
  record?: (seen: Seen) => void,
): Generator<undefined, Resolved> {
  const forwardings: Forwarding[] = [];
  const excess: Excess[] = [];
  const rangeRefusals: string[] = [];
  const isOne = service.ports.length < 2;
  const ports = isOne ? service.ports : yield* firstOfEachName(service.ports);
  for (const family of families) {
    if (!hasFamily(service.clusterIPs, family)) continue;
    if (forwardings.length > 0) yield;
    const part = new FamilyPart(service, ports, family, context);
    if (service.loadBalancerSourceRanges.length > 0) yield* part.guard();
    if (part.limitEndpoints(yield* part.gather(slices))) {
      // The endpoints that are served must not depend on the order in which slices arrived.
      yield* part.gather(slices.toSorted(byKey));
    }
    for (let i = 0; i < part.ports.length; i += 1) {
      if (i > 0) yield;
      const port = part.ports.at(i)!;
      const candidates = part.sharing.candidates(yield* part.candidates(port));
      const isPlain = !part.asksForAll(port) && !part.asksForDeal(port);
      const seen = isPlain ? part.seen(port, candidates) : yield* part.dealt(port, candidates);
      forwardings.push(seen.forwarding);
      const { rangeRefusal: why } = seen;
      if (why !== undefined && !rangeRefusals.includes(why)) rangeRefusals.push(why);
      record?.(seen);
    }
    excess.push(...part.excess);
  }
  return { forwardings, excess, rangeRefusals };
}

/** Leaves out a second port with the same name and protocol, which only manifests can have. */
function* firstOfEachName(ports: List<ServicePort>): Generator<undefined, readonly ServicePort[]> {
  const first = new Map<string, ServicePort>();
  for (let i = 0; i < ports.length; i += 1) {
    const port = ports.at(i)!;
    const key = portKey(port);
    if (!first.has(key)) first.set(key, port);
    if (i % portsAStep === portsAStep - 1) yield;
  }
  return [...first.values()];
}

/** A Service in one family: what its ports share, within the limits. */
class FamilyPart {
  readonly excess: Excess[] = [];
  /** The ports that are served. */
  readonly ports: List<ServicePort>;
  readonly sharing: PortSharing;
  readonly #service: Service;
  readonly #family: Family;
  readonly #context: ResolveContext;
  readonly #limits: ServiceLimits;
  readonly #addresses: List<ServiceAddress>;
  readonly #policies: Readonly<Record<'inside' | 'outside', PortPolicy>>;
  readonly #rulesOnly: Forwarding['rulesOnly'];
  #shared: SharedByPorts;
  #candidates: CandidateIndex;
  /** The remaining frontends at node ports, and for ranges of ports. */
  readonly #left: { nodePorts: number; ranges: number };
  /** How many pools each of its frontends may have. */
  readonly #pools: 1 | 2;
  readonly #poolCount: number;
  /** What each port has to remember, and how much ports still may; see `memoriesOfPort`. */
  readonly #memories: number;
  #memoriesLeft: number;
  /** The most slots of all pools. */
  #slotsMax: number;
  /** The most endpoints of one port. */
  #endpointsMax = Number.POSITIVE_INFINITY;

  constructor(service: Service, ports: List<ServicePort>, family: Family, context: ResolveContext) {
    this.#service = service;
    this.#family = family;
    this.#context = context;
    const addresses = addressesOf(service, family, context);
    const { limits: ofOne = noLimits } = context;
    const share = context.shares?.of(service.namespace);
    const limits = share === undefined ? ofOne : { ...ofOne, ...share };
    this.#limits = limits;
    const frontendsMax = limitOf('frontends', limits, ports.length + addresses.length);
    const got = allotFrontends(ports, addresses.length, frontendsMax);
    this.ports = firstOf(ports, got.ports);
    this.#addresses = firstOf(addresses, got.addresses);
    const ranges = countRanges(service, ports) * addresses.length;
    const rangesLeft = Math.min(ranges, frontendsMax - countFrontends(got));
    this.#left = { nodePorts: got.nodePorts, ranges: rangesLeft };
    this.#slotsMax = share?.slots ?? serviceSlotsMax;
    this.#pools = poolsOfFrontend(service);
    this.#poolCount = this.#pools * this.#frontendCount();
    const asked = allotFrontends(ports, addresses.length, noLimits.frontends);
    this.#note('frontends', countFrontends(asked) + ranges, frontendsMax);
    this.#memories = memoriesOfPort(service, this.#addresses.length);
    this.#memoriesLeft = limits.affinityPorts;
    this.#note('affinityPorts', this.#memories * this.ports.length);
    this.#policies = portPolicies(service, family);
    this.#rulesOnly = rulesOnly(service, addresses, context.nodeSockets);
    this.#shared = {
      sourceRanges: noRanges,
      nodeInSourceRanges: false,
      healthCheckNodePort: healthCheckNodePort(service),
    };
    this.#candidates = new CandidateIndex(family, context, service);
    this.sharing = new PortSharing(service, family, ports.length);
  }

  /** Says which clients may connect to what source ranges guard. */
  *guard(): Generator<undefined> {
    const { nodeAddresses } = this.#context;
    const { guardsAll } = this.#service;
    const guarded = this.#addresses.filter(({ kind }) => guards(guardsAll, kind));
    const nodePorts = guardsAll ? this.#left.nodePorts : 0;
    const sharers = Math.max(1, guarded.length * this.ports.length + nodePorts);
    const { count, ranges: sourceRanges } = yield* firstRanges(
      this.#service.loadBalancerSourceRanges,
      this.#family,
      (all) => shareOf(all * sharers, this.#limits.sourceRanges, sharers),
    );
    this.#note('sourceRanges', count * sharers);
    const merged = yield* rangesInSteps(sourceRanges);
    const nodeInSourceRanges = nodeAddresses.some(
      ({ bytes, family }) => family === this.#family && merged.holds(bytes),
    );
    this.#shared = { ...this.#shared, sourceRanges, nodeInSourceRanges };
  }

  /** Indexes the endpoints of the slices. Returns how many there are of each port. */
  *gather(slices: readonly EndpointSlice[]): Generator<undefined, readonly number[]> {
    for (let from = 0; from < this.ports.length; from += portsAStep) {
      if (from > 0) yield;
      this.#candidates.expect(this.ports, from);
    }
    let isFirst = true;
    for (const slice of slices) {
      for (let from = 0; from < slice.ports.length; from += portsAStep) {
        if (!isFirst) yield;
        isFirst = false;
        this.#candidates.add(slice, from);
      }
    }
    const counts: number[] = [];
    for (const port of this.ports) {
      counts.push(this.#candidates.count(port));
      if (counts.length % portsAStep === 0) yield;
    }
    return counts;
  }

  /**
   * Decides how many of its gathered endpoints, `counts`, each port gets. True: not all, and they
   * must be gathered again, in an order that is the same on all nodes.
   */
  limitEndpoints(counts: readonly number[]): boolean {
    const limits = this.#limits;
    let most = 0;
    for (const count of counts) most = Math.max(most, count);
    this.#note('frontendEndpoints', most);
    const named = this.ports.length + this.#addresses.length + most;
    this.#slotsMax = Math.min(this.#slotsMax, slotsWithin(named));
    if (most > limits.frontendEndpoints) this.#endpointsMax = limits.frontendEndpoints;
    const asked = this.#endpointCount(counts);
    const within = limitOf('endpoints', limits, named, this.#pools);
    this.#note('endpoints', asked, within);
    const share = shareOf(asked, within, this.#frontendCount());
    this.#endpointsMax = Math.min(this.#endpointsMax, share);
    if (this.#endpointsMax === Number.POSITIVE_INFINITY) return false;
    this.#candidates = new CandidateIndex(this.#family, this.#context, this.#service);
    return true;
  }

  /** The endpoints that the port gets. */
  candidates(port: ServicePort): Generator<undefined, Candidates> {
    return this.#candidates.gather(port, this.#endpointsMax);
  }

  /** What becomes of the port. */
  seen(
    port: ServicePort,
    candidates: Candidates,
    all = candidates.endpoints,
    pools = this.sharing.pools(candidates, this.#policy(port)),
    deal: Forwarding['deal'] = undefined,
  ): Seen {
    const policy = this.#policy(port);
    const isRange = beginsRange(this.#service, port);
    const refusal = isRange ? this.#rangeRefusal(port, candidates) : undefined;
    const hasRange = isRange && refusal === undefined;
    const lastPort = hasRange ? this.#service.portRange!.last : undefined;
    const ranged = lastPort === undefined ? port : { ...port, lastPort };
    const forwarding = this.#forwarding(ranged, policy, pools, all, deal);
    return { port, policy, candidates, forwarding, rangeRefusal: refusal };
  }

  /** As `seen`, for a port that asks for more. */
  *dealt(port: ServicePort, candidates: Candidates): Generator<undefined, Seen> {
    let all = candidates.endpoints;
    if (this.asksForAll(port)) all = (yield* this.#candidates.gather(port)).endpoints;
    const pools = this.sharing.pools(candidates, this.#policy(port));
    const deal = this.asksForDeal(port) ? yield* this.#deal(port, pools) : undefined;
    return this.seen(port, candidates, all, pools, this.sharing.deal(deal));
  }

  /** Whether connections of the port may have to be shared out in another way than evenly. */
  asksForDeal(port: ServicePort): boolean {
    const { balancing } = this.#service;
    if (balancing !== undefined || this.#context.health?.isAny === true) return true;
    return this.#candidates.hasWeights(port);
  }

  /** Whether `#endings` needs endpoints beyond the limit, too: those have not left. */
  asksForAll(port: ServicePort): boolean {
    const isAsked = this.#service.endings?.endAfterMs !== undefined && port.protocol === 'TCP';
    return isAsked && this.#candidates.count(port) > this.#endpointsMax;
  }

  #rangeRefusal(port: ServicePort, { endpoints }: Candidates): string | undefined {
    return rangeRefusal(this.#service, port, endpoints, this.#context.dealing);
  }

  #policy(port: ServicePort): PortPolicy {
    return this.#policies[port.nodePort === 0 ? 'inside' : 'outside'];
  }

  /** `all`: the endpoints of the slices, also beyond the limit where connections to them may end. */
  #forwarding(
    port: RangedPort,
    policy: PortPolicy,
    pools: Pools,
    all: EndpointList,
    deal: Forwarding['deal'],
  ): Forwarding {
    const paths = pathsOf(policy, pools.hasAny, pools.local.length > 0);
    const { key, servicePort, frontends } = this.sharing.named(port, this.#frontends(port, paths));
    // Field by field: with a spread, V8 would keep a second object for the properties.
    return {
      key,
      servicePort,
      family: this.#family,
      frontends,
      cluster: pools.cluster,
      local: pools.local,
      hairpin: pools.hairpin,
      maybeLocal: pools.maybeLocal,
      serving: pools.serving,
      affinityTimeoutSeconds: this.#affinityTimeoutSeconds(),
      sourceRanges: this.#shared.sourceRanges,
      guardsAll: this.#service.guardsAll,
      nodeInSourceRanges: this.#shared.nodeInSourceRanges,
      healthCheckNodePort: this.#shared.healthCheckNodePort,
      rulesOnly: this.#rulesOnly,
      deal,
      endings: this.#endings(port, all),
    };
  }

  #endings(port: ServicePort, kept: EndpointList): Forwarding['endings'] {
    const { endings } = this.#service;
    if (endings === undefined) return undefined;
    const { endAfterMs, keepsFlows, maxAgeMs } = endings;
    if (port.protocol === 'UDP') return keepsFlows && { keepsFlows };
    if (port.protocol !== 'TCP') return undefined;
    if (endAfterMs === undefined) return maxAgeMs === undefined ? undefined : { maxAgeMs };
    return { endAfterMs, kept, ...(maxAgeMs && { maxAgeMs }) };
  }

  /** To be asked before `#forwarding` of the same port. */
  *#deal(port: ServicePort, pools: Pools): Generator<undefined, Forwarding['deal']> {
    const { namespace, name } = this.#service;
    const { balance: asked, slowStartMs } = this.#service.balancing ?? {};
    const weights = yield* this.#candidates.weights(port);
    const { dealing: here } = this.#context;
    const key = forwardingKey({ namespace, name, port: port.name, protocol: port.protocol });
    const health = this.#context.health?.parts(this.#family, key);
    const starting =
      slowStartMs === undefined ? undefined : this.#context.starting?.(this.#family, key);
    const open = this.#context.open?.(this.#family, key);
    const isPlain = asked === undefined && weights === undefined;
    if (isPlain && starting === undefined && health === undefined) return undefined;
    const canRemember = this.#memoriesLeft >= this.#memories;
    const isAsked = asksForSlots(this.#service.balancing, weights !== undefined);
    const slots = isAsked ? this.#slotsMax : Math.min(this.#slotsMax, unaskedSlotsMax);
    const slotsMax = Math.floor(slots / Math.max(1, this.#poolCount));
    const maxEjected = this.#context.health?.maxEjected ?? 0;
    const parts = { open, starting, health, maxEjected };
    return yield* dealInSteps({ asked, weights, ...parts, slotsMax, here, canRemember }, pools);
  }

  /** The affinity timeout of the next port; 0 = none, also when the limit is reached. */
  #affinityTimeoutSeconds(): number {
    this.#memoriesLeft -= this.#memories;
    return this.#memoriesLeft < 0 ? 0 : this.#service.affinityTimeoutSeconds;
  }

  #frontends({ port, nodePort, lastPort }: RangedPort, { inside, outside }: PortPaths): Frontend[] {
    const hasNodePort = nodePort !== 0 && this.#left.nodePorts > 0;
    if (hasNodePort) this.#left.nodePorts -= 1;
    const found = this.#addresses.map(({ kind, address }): Frontend => {
      return { kind, address, port, paths: kind === 'clusterIP' ? inside : outside };
    });
    if (lastPort !== undefined) {
      const ranges = found.slice(0, this.#left.ranges).map((one) => ({ ...one, lastPort }));
      this.#left.ranges -= ranges.length;
      found.push(...ranges);
    }
    if (!hasNodePort) return found;
    const address = undefined;
    return [...found, { kind: 'nodePort', address, port: nodePort, paths: outside }];
  }

  #frontendCount(): number {
    const { length: ports } = this.ports;
    const { length: addresses } = this.#addresses;
    return (
      countFrontends({ ports, addresses, nodePorts: this.#left.nodePorts }) + this.#left.ranges
    );
  }

  /** The number of endpoints of all frontends together. `counts`: how many each port has. */
  #endpointCount(counts: readonly number[]): number {
    let nodePorts = this.#left.nodePorts;
    let count = 0;
    for (let i = 0; i < counts.length; i += 1) {
      const hasNodePort = this.ports.at(i)!.nodePort !== 0 && nodePorts > 0;
      if (hasNodePort) nodePorts -= 1;
      const endpoints = Math.min(counts[i]!, this.#endpointsMax);
      const isRange = beginsRange(this.#service, this.ports.at(i)!) && this.#left.ranges > 0;
      const addresses = this.#addresses.length * (isRange ? 2 : 1);
      count += endpoints * (addresses + (hasNodePort ? 1 : 0));
    }
    return count;
  }

  #note(what: Excess['what'], asked: number, limit = this.#limits[what]): void {
    if (asked <= limit) return;
    const { limits = noLimits, shares } = this.#context;
    const isShare = limit === this.#limits[what] && limit < limits[what];
    const namespaceLimit =
      isShare && what !== 'frontendEndpoints' ? shares?.total(what) : undefined;
    this.excess.push({ family: this.#family, what, asked, limit, namespaceLimit });
  }
}

/** How many ports begin ranges: one for each protocol at most. */
function countRanges(service: Service, ports: List<ServicePort>): number {
  if (service.portRange === undefined) return 0;
  return ports.filter((port) => beginsRange(service, port)).length;
}

type RangedPort = ServicePort & Pick<Frontend, 'lastPort'>;

type SharedByPorts = Pick<
  Forwarding,
  'sourceRanges' | 'nodeInSourceRanges' | 'healthCheckNodePort'
>;

/** The ranges of one family that are served, and how many there are. */
interface ServedRanges {
  readonly count: number;
  readonly ranges: readonly CIDR[];
}

const noRanges: readonly CIDR[] = [];

/** The number of source ranges that are compared in one step. */
const rangesAStep = 1024;

/** By the list in the Service record, so that equal lists are the same object. */
const rangesKnown = new WeakMap<List<CIDR>, Partial<Record<Family, ServedRanges>>>();

/**
 * The first ranges of one family, `mostOf` their number, without duplicates; none if one of them
 * allows all clients (5.2). Others are not kept: a Service may have 20,000, of which a few are
 * served.
 */
function* firstRanges(
  list: List<CIDR>,
  family: Family,
  mostOf: (count: number) => number,
): Generator<undefined, ServedRanges> {
  const known = rangesKnown.get(list) ?? {};
  rangesKnown.set(list, known);
  const isFull = ({ count, ranges }: ServedRanges): boolean =>
    ranges.length === Math.min(count, mostOf(count));
  if (known[family] !== undefined && isFull(known[family])) return known[family];
  const distinct = yield* distinctRanges(list, family);
  const ranges = distinct.slice(0, mostOf(distinct.length));
  known[family] = { count: distinct.length, ranges };
  return known[family];
}

function* distinctRanges(list: List<CIDR>, family: Family): Generator<undefined, CIDR[]> {
  const distinct = new Map<number | string, CIDR>();
  for (let i = 0; i < list.length; i += 1) {
    if (i % rangesAStep === rangesAStep - 1) yield;
    const range = list.at(i)!;
    if (range.address.family !== family) continue;
    if (range.prefixLength === 0) return [];
    distinct.set(cidrKey(range), range);
  }
  return [...distinct.values()];
}

interface ServiceAddress {
  readonly kind: Exclude<Frontend['kind'], 'nodePort'>;
  readonly address: Address;
}

function rulesOnly(
  service: Service,
  addresses: List<ServiceAddress>,
  { addresses: ofNode } = noSockets,
): Forwarding['rulesOnly'] {
  if (service.rulesOnly) return 'annotation';
  const isAtNode = ({ kind, address }: ServiceAddress): boolean =>
    kind === 'clusterIP' && ofNode.has(address.key);
  return addresses.some(isAtNode) && 'address of the node';
}

/**
 * An address that occurs twice is one frontend: a ClusterIP precedes a load balancer's address,
 * which precedes an external IP. Upstream's iptables mode has the same order, because its first
 * rule matches. In its nftables mode the last of ClusterIP, external IP and load-balancer IP
 * overwrites the element, and source ranges are checked for a load balancer's address in any case.
 */
function addressesOf(
  service: Service,
  family: Family,
  { externalIPRules, externalIPsEnabled }: ResolveContext,
): readonly ServiceAddress[] {
  const { clusterIPs, externalIPs, loadBalancerIPs } = service;
  if (clusterIPs.length === 1 && externalIPs.length === 0 && loadBalancerIPs.length === 0) {
    const address = clusterIPs[0]!;
    return address.family === family ? [{ kind: 'clusterIP', address }] : [];
  }
  const found: ServiceAddress[] = [];
  const add = (kind: ServiceAddress['kind'], addresses: List<Address>): void => {
    for (const address of addresses) if (address.family === family) found.push({ kind, address });
  };
  add('clusterIP', clusterIPs);
  add('loadBalancerIP', loadBalancerIPs);
  if (externalIPsEnabled) add('externalIP', allowedExternalIPs(service, externalIPRules));
  if (found.length < 2) return found;
  const first = new Map<AddressKey, ServiceAddress>();
  for (const one of found) {
    const key = one.address.key;
    if (!first.has(key)) first.set(key, one);
  }
  return first.size === found.length ? found : [...first.values()];
}

/** The list itself if it has no more. */
function firstOf<T>(list: List<T>, most: number): List<T> {
  return list.length <= most ? list : list.slice(0, most);
}
