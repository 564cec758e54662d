/**
 * The types of the state: the narrow, readonly records that a source delivers (decoded once, in
 * `source/decode.ts`), and the Forwarding that modes translate. `decode.ts` has applied the
 * defaults of the Kubernetes API.
 */
import { Address, addressBytes, type CIDR, type Family } from '../net/address.ts';
import type { EndpointList } from '../net/endpoint-list.ts';
import type { List } from '../net/list.ts';
import { formatServicePort, type Protocol } from '../net/protocol.ts';
import type { Balancing, Deal } from './deal.ts';
import type { Detection } from './detection.ts';
import type { Endings, PortEndings } from './endings.ts';
import type { Limits } from './limits.ts';
import type { Paths, TrafficPolicy } from './paths.ts';

/** A Service that this proxy serves (headless and ExternalName ones never become records). */
export interface Service {
  /** `namespace/name`, as `objectKey` makes it. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /**
   * Milliseconds since the epoch; determines which of two Services owns a frontend that both claim.
   */
  readonly createdMs: number;
  readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
  /** At most one per family. */
  readonly clusterIPs: readonly Address[];
  readonly externalIPs: List<Address>;
  /** Ingress addresses whose ipMode is VIP (or absent). */
  readonly loadBalancerIPs: List<Address>;
  /** Empty = every client may connect. */
  readonly loadBalancerSourceRanges: List<CIDR>;
  /** They count for node ports and external IPs, too. */
  readonly guardsAll?: true;
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  /** 0 = none. */
  readonly healthCheckNodePort: number;
  /** Session affinity ClientIP; 0 = none. */
  readonly affinityTimeoutSeconds: number;
  /** Only rules translate its connections, not programs at connect time. */
  readonly rulesOnly: boolean;
  /** Its connections never take the kernel's short cut (`fast-path/`). */
  readonly isFastPathOff?: true;
  /** How its connections are to be shared out; undefined: it does not say. */
  readonly balancing?: Balancing | undefined;
  /** What becomes of endpoints that do not answer; undefined: it does not say. */
  readonly detection?: Detection | undefined;
  /** What becomes of its connections whose endpoint has gone; undefined: it does not say. */
  readonly endings?: Endings | undefined;
  /** How many connections it accepts; undefined: any number. */
  readonly limits?: Limits | undefined;
  /** Of its ports with the first number; see `port-range.ts`. */
  readonly portRange?: PortRange | undefined;
  /**
   * Set if the type is LoadBalancer and the status has no load balancer: its loadBalancerClass, or
   * empty. Undefined: it waits for none.
   */
  readonly awaitedLoadBalancer: string | undefined;
  /** Pods that it selects are its endpoints. */
  readonly hasSelector?: true;
  readonly ports: List<ServicePort>;
}

/** An existing Service that this proxy does not serve. */
export interface UnservedService {
  /** `namespace/name` */
  readonly key: string;
  /** The reason as a sentence: `it is headless`. */
  readonly because: string;
  /** Addresses that it has nevertheless, as text. */
  readonly addresses: readonly string[];
}

/** The ports of annotation `fairlead.io/port-range`, both in host order; 0 if it is not allowed. */
export interface PortRange {
  readonly first: number;
  /** Greater than `first`. */
  readonly last: number;
}

export interface ServicePort {
  /** Empty for an unnamed port. */
  readonly name: string;
  readonly protocol: Protocol;
  /** Host order. */
  readonly port: number;
  /** 0 = none. */
  readonly nodePort: number;
}

/** Bits of `EndpointSlice.conditions`. */
export const Condition = {
  ready: 1,
  serving: 2,
  terminating: 4,
  /** The endpoint's nodeName is this node. */
  local: 8,
  /** hints.forNodes is not empty. */
  nodeHinted: 16,
  /** hints.forNodes names this node. */
  nodeHintedHere: 32,
} as const;

/**
 * One EndpointSlice, compact: columns instead of an object for each endpoint. Columns of bytes are
 * strings with one character per byte (Latin-1): a typed array takes 200 bytes before its first
 * element, and can't be compared with `===`.
 */
export interface EndpointSlice {
  /** `namespace/name`. */
  readonly key: string;
  /** Key of the Service, which the label kubernetes.io/service-name names. */
  readonly service: string;
  readonly family: Family;
  readonly ports: List<SlicePort>;
  /** Number of endpoints. */
  readonly length: number;
  /** First address of each endpoint, network order, 4 or 16 bytes each. */
  readonly addresses: string;
  /** `Condition` bits of each endpoint. */
  readonly conditions: string;
  /** hints.forZones of each endpoint; undefined when none has any. */
  readonly zoneHints: List<readonly string[]> | undefined;
  /** The node and zone of each endpoint, for people; undefined if no endpoint has them. */
  readonly places: readonly Place[] | undefined;
  /** A hash of the name of each endpoint's pod, 4 bytes each, 0 without one; undefined: no names. */
  readonly pods?: string | undefined;
  /** The weight of each of its endpoints; undefined when nothing says. */
  readonly weight?: number | undefined;
  /** endpoints.kubernetes.io/last-change-trigger-time, milliseconds since the epoch. */
  readonly triggerTimeMs: number | undefined;
}

/** An order of slices that does not depend on when they came. */
export function byKey(a: EndpointSlice, b: EndpointSlice): number {
  return a.key < b.key ? -1 : 1;
}

type Addresses = Pick<EndpointSlice, 'addresses' | 'family'>;

/** The bytes of the address of endpoint `i`, a character for each. */
export function latin1At({ addresses, family }: Addresses, i: number): string {
  const width = addressBytes[family];
  return addresses.slice(i * width, (i + 1) * width);
}

/** The address of endpoint `i`. */
export function addressAt(slice: Addresses, i: number): Address {
  return Address.from(Buffer.from(latin1At(slice, i), 'latin1'));
}

/** Bytes of each item of `EndpointSlice.pods`. */
export const podBytes = 4;

/** An EndpointSlice that is not used, although it seems to be for a Service. */
export interface UnusedSlice {
  /** `namespace/name` */
  readonly key: string;
  /** Key of the Service. */
  readonly service: string;
  /** The reason: `its addressType is FQDN`. */
  readonly because: string;
}

/** Equal ones are usually one object: there are as many as nodes. */
export interface Place {
  /** The node's name; empty = absent. */
  readonly node: string;
  /** Its zone; empty = absent. */
  readonly zone: string;
}

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  /** Host order, never 0. */
  readonly port: number;
}

/** The node that this process runs on. */
export interface Node {
  readonly name: string;
  /** InternalIPs, then ExternalIPs. */
  readonly addresses: readonly Address[];
  readonly podCIDRs: readonly string[];
  /** Label topology.kubernetes.io/zone; empty = none. */
  readonly zone: string;
  readonly deleted: boolean;
  readonly taintKeys: readonly string[];
  /** The kubelet says that it ends its pods because the machine is shutting down. */
  readonly isShuttingDown: boolean;
}

export interface ServiceCIDR {
  readonly name: string;
  readonly cidrs: readonly CIDR[];
}

/** Identifies a ServicePort. */
export interface ServicePortName {
  readonly namespace: string;
  readonly name: string;
  /** Empty for an unnamed port. */
  readonly port: string;
  readonly protocol: Protocol;
}

/** See `formatServicePort`. */
export function formatServicePortName({ namespace, name, port }: ServicePortName): string {
  return formatServicePort(`${namespace}/${name}`, port);
}

/** One address and port or range of ports, or one node port, to which a client can connect. */
export interface Frontend {
  readonly kind: 'clusterIP' | 'externalIP' | 'loadBalancerIP' | 'nodePort';
  /** Undefined for a node port, which is on every node-port address. */
  readonly address: Address | undefined;
  /** Host order. */
  readonly port: number;
  /** Of a range of ports, which begins at `port`. Host order. */
  readonly lastPort?: number | undefined;
  /** A range of ports has the port, too: it must not get connections to this one. */
  readonly isInRange?: true | undefined;
  readonly paths: Paths;
}

/**
 * The meaning of one ServicePort on this node, for one family, independent of the mode. Pools keep
 * their order as endpoints are added and removed (`pool.ts`): a mode writes only the positions that
 * changed.
 */
export interface Forwarding {
  /** `forwardingKey` of the Service port: unique within the family. */
  readonly key: string;
  readonly servicePort: ServicePortName;
  readonly family: Family;
  readonly frontends: readonly Frontend[];
  /** Endpoints for traffic of policy Cluster. */
  readonly cluster: EndpointList;
  /** Endpoints on this node for traffic of policy Local. */
  readonly local: EndpointList;
  /** Reachable endpoints on this node: they are masqueraded when they connect to themselves. */
  readonly hairpin: EndpointList;
  /**
   * Reachable endpoints that name no node and have addresses of this node's pods: mode iptables
   * treats them as `hairpin`, like kube-proxy. Undefined: there are none, as usual.
   */
  readonly maybeLocal?: EndpointList | undefined;
  /** All serving endpoints, regardless of policy: conntrack entries to them are valid. */
  readonly serving: EndpointList;
  /** 0 = no session affinity. */
  readonly affinityTimeoutSeconds: number;
  /** Clients that load-balancer addresses accept; empty = all (see `isGuarded`). */
  readonly sourceRanges: readonly CIDR[];
  /** Node ports and external IPs accept no others, either. */
  readonly guardsAll?: true | undefined;
  /**
   * A source range contains this node's address: load-balancer addresses may be sources, too (5.7).
   */
  readonly nodeInSourceRanges: boolean;
  /** 0 = none. */
  readonly healthCheckNodePort: number;
  /**
   * Only rules translate its connections, not programs at connect time: all of them, or those to a
   * ClusterIP that this node has, where a cache may listen and rules of others may let it answer.
   */
  readonly rulesOnly: false | 'annotation' | 'address of the node';
  /** Undefined: every endpoint gets an equal share, as the mode deals it. */
  readonly deal?: Deal | undefined;
  /** Undefined: the Service does not say what becomes of connections whose endpoint has gone. */
  readonly endings?: PortEndings | undefined;
}

/** Forwardings by their keys. A Map is one. */
export interface ForwardingsByKey extends Iterable<readonly [string, Forwarding]> {
  readonly size: number;
  get(key: string): Forwarding | undefined;
  has(key: string): boolean;
  values(): Iterable<Forwarding>;
}

/** The key of a Service port's Forwardings: `ns/name:port/TCP`. */
export function forwardingKey({ namespace, name, port, protocol }: ServicePortName): string {
  const service = port === '' ? name : `${name}:${port}`;
  // By `join` for the same reason as in `objectKey`. It takes longer than a template.
  return [namespace, service, protocol].join('/');
}

/** The keys of a Service's Forwardings, in the order of its ports. */
export function forwardingKeys({ name, namespace, ports }: Service): readonly string[] {
  return ports.map(({ name: port, protocol }) =>
    forwardingKey({ namespace, name, port, protocol }),
  );
}

/** Identifies a Forwarding among those of both families: `IPv4 ns/name:port/TCP`. */
export function forwardingId(family: Family, key: string): string {
  return `${family} ${key}`;
}

/** `namespace/name` of the Service that has the port. */
export function serviceKey({ namespace, name }: ServicePortName): string {
  return objectKey(namespace, name);
}

/**
 * `namespace/name`. It is made by `join`, like a Forwarding's key: V8 keeps a string that + or a
 * template makes in parts, which takes more memory.
 */
export function objectKey(namespace: string, name: string): string {
  return [namespace, name].join('/');
}

/** The namespace of `namespace/name`. */
export function namespaceOf(key: string): string {
  return key.slice(0, key.indexOf('/'));
}
