/** Records for tests: short to write, complete, one thing to say at a time. */
import { type Address, parseAddress, parseCIDR } from '../../../src/net/address.ts';
import { type ResolveContext, resolve } from '../../../src/state/resolve.ts';
import type { ClusterState } from '../../../src/state/store.ts';
import {
  Condition,
  type EndpointSlice,
  type Forwarding,
  type Node,
  objectKey,
  type Service,
  type ServicePort,
  type SlicePort,
} from '../../../src/state/types.ts';

export function address(text: string): Address {
  const parsed = parseAddress(text);
  if (parsed === undefined) throw new Error(`no address: ${text}`);
  return parsed;
}

export function cidr(text: string): NonNullable<ReturnType<typeof parseCIDR>> {
  const parsed = parseCIDR(text);
  if (parsed === undefined) throw new Error(`no CIDR: ${text}`);
  return parsed;
}

export const http: ServicePort = { name: 'http', protocol: 'TCP', port: 80, nodePort: 0 };

type ServiceFields = Partial<
  Omit<
    Service,
    'key' | 'clusterIPs' | 'externalIPs' | 'loadBalancerIPs' | 'loadBalancerSourceRanges'
  >
> & {
  clusterIPs?: string[];
  externalIPs?: string[];
  loadBalancerIPs?: string[];
  loadBalancerSourceRanges?: string[];
};

/** Service ns/web with ClusterIP 10.96.0.1 and port http 80. */
export function service(fields: ServiceFields = {}): Service {
  const { namespace = 'ns', name = 'web' } = fields;
  return {
    key: objectKey(namespace, name),
    namespace,
    name,
    uid: 'uid',
    createdMs: 0,
    type: 'ClusterIP',
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    affinityTimeoutSeconds: 0,
    rulesOnly: false,
    awaitedLoadBalancer: undefined,
    ports: [http],
    ...fields,
    clusterIPs: (fields.clusterIPs ?? ['10.96.0.1']).map(address),
    externalIPs: (fields.externalIPs ?? []).map(address),
    loadBalancerIPs: (fields.loadBalancerIPs ?? []).map(address),
    loadBalancerSourceRanges: (fields.loadBalancerSourceRanges ?? []).map(cidr),
  };
}

export interface Endpoint {
  /** Names of `Condition` bits. */
  readonly is: readonly (keyof typeof Condition)[];
  readonly zones?: readonly string[];
}

/** Ready, as most endpoints are. */
export const ready: Endpoint = { is: ['ready', 'serving'] };
export const readyLocal: Endpoint = { is: ['ready', 'serving', 'local'] };
export const draining: Endpoint = { is: ['serving', 'terminating'] };
export const drainingLocal: Endpoint = { is: ['serving', 'terminating', 'local'] };
export const unready: Endpoint = { is: [] };
export const stopping: Endpoint = { is: ['terminating'] };

export function conditionBits(is: Endpoint['is']): number {
  return is.reduce((bits, name) => bits | Condition[name], 0);
}

/** A column of an EndpointSlice with these bytes. */
export function column(...bytes: readonly number[]): string {
  return String.fromCharCode(...bytes);
}

/** Slice ns/web-1 of ns/web, port http 8080, with the endpoints given by address. */
export function slice(
  endpoints: Readonly<Record<string, Endpoint>>,
  fields: Partial<EndpointSlice> = {},
): EndpointSlice {
  const addresses = Object.keys(endpoints).map(address);
  const family = fields.family ?? addresses[0]?.family ?? 'IPv4';
  const values = Object.values(endpoints);
  return {
    key: 'ns/web-1',
    service: 'ns/web',
    family,
    ports: [slicePort('http', 8080)],
    length: addresses.length,
    addresses: column(...addresses.flatMap(({ bytes }) => [...bytes])),
    conditions: column(...values.map(({ is }) => conditionBits(is))),
    zoneHints: values.some(({ zones }) => zones !== undefined)
      ? values.map(({ zones }) => zones ?? [])
      : undefined,
    places: undefined,
    triggerTimeMs: undefined,
    ...fields,
  };
}

export function slicePort(name: string, port: number, protocol: SlicePort['protocol'] = 'TCP') {
  return { name, port, protocol };
}

export function node(fields: Partial<Node> = {}): Node {
  return {
    name: 'node-a',
    addresses: [address('192.168.0.1')],
    podCIDRs: [],
    zone: 'zone-a',
    deleted: false,
    taintKeys: [],
    isShuttingDown: false,
    ...fields,
  };
}

/** The pools of a Forwarding as text. */
export function pools(forwarding: Forwarding): Record<string, string[]> {
  const { cluster, local, hairpin, serving } = forwarding;
  return {
    cluster: cluster.texts(),
    local: local.texts(),
    hairpin: hairpin.texts(),
    serving: serving.texts(),
  };
}

/** This node: zone-a, 192.168.0.1 and fd01::1. */
export const context: ResolveContext = {
  zone: 'zone-a',
  nodeAddresses: [address('192.168.0.1'), address('fd01::1')],
  externalIPsEnabled: true,
};

/** The only Forwarding of a Service with one port and one family. */
export function resolveOne(
  of: Service,
  slices: readonly EndpointSlice[],
  fields: Partial<ResolveContext> = {},
): Forwarding {
  const [forwarding, ...others] = resolve(of, slices, { ...context, ...fields });
  if (forwarding === undefined || others.length > 0) throw new Error('not exactly one Forwarding');
  return forwarding;
}

/** Ports p0, p1 … from `first` on. */
export function portsOf(
  count: number,
  fields: Partial<ServicePort> = {},
  first = 1000,
): ServicePort[] {
  return Array.from({ length: count }, (_, i) => {
    return { ...http, name: `p${i}`, port: first + i, ...fields };
  });
}

/** 203.0.x.y, each another. */
export function ips(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `203.0.${i >> 8}.${i & 0xff}`);
}

/** The first `limit` Services that changed, those first that have waited longest: they are done. */
export function takeChanged(state: ClusterState, limit = Number.POSITIVE_INFINITY): string[] {
  const taken = [...state.changed].slice(0, limit);
  for (const one of taken) state.resolved(one);
  return taken.map(({ key }) => key);
}
