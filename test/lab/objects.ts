/** Kubernetes objects for stories: YAML text, or builders that fill in both families. */
import { parseAllDocuments } from 'yaml';
import {
  type ActorName,
  type Addresses,
  actorAt,
  addressOf,
  CLUSTER_CIDR,
  clusterIp,
  type DualAddresses,
  FAMILIES,
  type Family,
  NODE_IP,
  NODE_NAME,
  NODE_POD_CIDR,
  NODE2_IP,
  NODE2_POD_CIDR,
  SECOND_NODE_NAME,
  SERVICE_CIDR,
} from './addresses.ts';
import type { Protocol } from './outcome.ts';

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

/** Identifies an object among all objects of a story. */
export function keyOf({ kind, metadata }: KubernetesObject): string {
  return `${kind} ${metadata.namespace ?? ''}/${metadata.name}`;
}

/** All documents of a YAML text; the items of `kind: List` one by one. */
export function fromYaml(text: string): KubernetesObject[] {
  return parseAllDocuments(text).flatMap((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    const object = document.toJS() as KubernetesObject | null;
    if (object === null) return [];
    return object.kind === 'List' ? (object.items as KubernetesObject[]) : [object];
  });
}

const NAMESPACE = 'default';
/** The default port of slices, at which servers listen. */
export const SERVER_PORT = 8080;

export interface PortOptions {
  readonly port: number;
  readonly name?: string;
  readonly protocol?: Protocol;
  readonly nodePort?: number;
}

export interface ServiceOptions {
  /** ClusterIPs of one or two families; default clusterIp(10). */
  readonly clusterIp?: Addresses;
  /** Default: port 80 TCP without a name. */
  readonly ports?: readonly PortOptions[];
  /** Ingress addresses of status.loadBalancer; they also make the type LoadBalancer. */
  readonly vips?: readonly Addresses[];
  readonly ipMode?: 'VIP' | 'Proxy';
  readonly externalIps?: readonly Addresses[];
  readonly labels?: Readonly<Record<string, string>>;
  /** Further fields of spec, or others than the defaults. */
  readonly spec?: Readonly<Record<string, unknown>>;
}

function flat(addresses: readonly Addresses[]): string[] {
  return addresses.flatMap((each) => FAMILIES.flatMap((family) => each[family] ?? []));
}

/** The type that the API server requires for the fields of the Service. */
function typeOf(options: ServiceOptions): string {
  if (options.vips !== undefined) return 'LoadBalancer';
  const hasNodePort = options.ports?.some(({ nodePort }) => nodePort !== undefined);
  return hasNodePort === true ? 'NodePort' : 'ClusterIP';
}

export function service(name: string, options: ServiceOptions = {}): KubernetesObject {
  const { clusterIp: ips = clusterIp(10), ports = [{ port: 80 }], vips, ipMode } = options;
  const families = FAMILIES.filter((family) => ips[family] !== undefined);
  const clusterIPs = flat([ips]);
  const mode = ipMode === undefined ? {} : { ipMode };
  const ingress = flat(vips ?? []).map((ip) => ({ ip, ...mode }));
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace: NAMESPACE, labels: { ...options.labels } },
    spec: {
      type: typeOf(options),
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: families,
      ipFamilyPolicy: families.length === 2 ? 'RequireDualStack' : 'SingleStack',
      internalTrafficPolicy: 'Cluster',
      sessionAffinity: 'None',
      ports: ports.map((port) => ({ protocol: 'TCP', ...port })),
      ...(options.externalIps === undefined ? {} : { externalIPs: flat(options.externalIps) }),
      ...options.spec,
    },
    status: { loadBalancer: vips === undefined ? {} : { ingress } },
  };
}

/** sessionAffinity fields for ServiceOptions.spec. */
export function clientIpAffinity(timeoutSeconds: number): Record<string, unknown> {
  return {
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds } },
  };
}

export interface EndpointOptions {
  /** An actor, or any addresses. Several addresses of a family make one endpoint with a list. */
  readonly at: ActorName | Addresses | readonly Addresses[];
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
  readonly zone?: string;
  /** Default: the node that the actor is on. */
  readonly nodeName?: string;
  readonly hints?: { readonly forZones?: readonly string[]; readonly forNodes?: readonly string[] };
}

export interface SliceOptions {
  /** Default: SERVER_PORT, TCP, without a name. A null number is legal. */
  readonly ports?: readonly {
    readonly name?: string;
    readonly port?: number | null;
    readonly protocol?: Protocol;
  }[];
  /** For several slices of one Service and family. */
  readonly suffix?: string;
}

const NODE_OF: Readonly<Partial<Record<ActorName, string>>> = {
  node: NODE_NAME,
  'pod-a': NODE_NAME,
  'pod-b': NODE_NAME,
  node2: SECOND_NODE_NAME,
  'pod-c': SECOND_NODE_NAME,
};

function endpoint(family: Family, given: ActorName | EndpointOptions): unknown {
  const options: EndpointOptions = typeof given === 'string' ? { at: given } : given;
  const { at, ready = true, terminating = false } = options;
  const list = typeof at === 'string' ? [addressOf(at)] : [at].flat();
  const addresses = list.flatMap((each) => each[family] ?? []);
  const actor = actorAt(addresses[0] ?? '');
  const nodeName = options.nodeName ?? (actor === undefined ? undefined : NODE_OF[actor]);
  const { zone, hints } = options;
  return {
    addresses,
    conditions: { ready, serving: options.serving ?? ready, terminating },
    ...(nodeName === undefined ? {} : { nodeName }),
    ...(zone === undefined ? {} : { zone }),
    ...(hints === undefined ? {} : { hints: hintsObject(hints) }),
  };
}

function hintsObject({ forZones, forNodes }: NonNullable<EndpointOptions['hints']>): unknown {
  const named = (names: readonly string[]) => names.map((name) => ({ name }));
  return {
    ...(forZones === undefined ? {} : { forZones: named(forZones) }),
    ...(forNodes === undefined ? {} : { forNodes: named(forNodes) }),
  };
}

/** One EndpointSlice: a slice has one family. */
export function slice(
  family: Family,
  serviceName: string,
  endpoints: readonly (ActorName | EndpointOptions)[],
  { ports = [{ port: SERVER_PORT }], suffix = '' }: SliceOptions = {},
): KubernetesObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      // As the controller does, which keeps names within 253 characters.
      name: `${serviceName.slice(0, 240)}-${family.toLowerCase()}${suffix}`,
      namespace: NAMESPACE,
      labels: { 'kubernetes.io/service-name': serviceName },
    },
    addressType: family,
    endpoints: endpoints.map((each) => endpoint(family, each)),
    ports: ports.map((port) => ({ name: '', protocol: 'TCP', ...port })),
  };
}

/** The slices of both families; an endpoint without an address of a family is left out there. */
export function slices(
  serviceName: string,
  endpoints: readonly (ActorName | EndpointOptions)[],
  options: SliceOptions = {},
): KubernetesObject[] {
  return FAMILIES.map((family) => {
    const ofFamily = endpoints.filter((each) => {
      if (typeof each === 'string' || typeof each.at === 'string') return true;
      return [each.at].flat().some((addresses) => addresses[family] !== undefined);
    });
    return slice(family, serviceName, ofFamily, options);
  });
}

/** The objects as those of another namespace. */
export function inNamespace(
  namespace: string,
  objects: readonly KubernetesObject[],
): KubernetesObject[] {
  return objects.map((one) => ({ ...one, metadata: { ...one.metadata, namespace } }));
}

export interface NodeOptions {
  readonly labels?: Readonly<Record<string, string>>;
  /** Default: the primary node IPs. */
  readonly addresses?: Addresses;
  readonly podCidrs?: Addresses;
}

/** The node under test unless another name is given. */
export function node(options: NodeOptions = {}, name: string = NODE_NAME): KubernetesObject {
  const isSecond = name === SECOND_NODE_NAME;
  const podCIDRs = flat([options.podCidrs ?? (isSecond ? NODE2_POD_CIDR : NODE_POD_CIDR)]);
  const addresses = flat([options.addresses ?? (isSecond ? NODE2_IP : NODE_IP)]);
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name, labels: { 'kubernetes.io/hostname': name, ...options.labels } },
    spec: { podCIDR: podCIDRs[0], podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
  };
}

/** A ServiceCIDR with the name that an API server gives the one from its flags. */
export function serviceCidr(
  cidrs: readonly string[] = flat([SERVICE_CIDR]),
  name = 'kubernetes',
): KubernetesObject {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name },
    spec: { cidrs },
  };
}

/** For ProxySettings.clusterCIDR. */
export function joined({ IPv4, IPv6 }: DualAddresses): string {
  return `${IPv4},${IPv6}`;
}

/** The objects that exist before a story's first step. */
export const BASELINE: readonly KubernetesObject[] = [node(), serviceCidr()];
export const DEFAULT_CLUSTER_CIDR = joined(CLUSTER_CIDR);
/** How most stories configure the proxy. */
export const settings = {
  detectLocalMode: 'ClusterCIDR',
  clusterCIDR: DEFAULT_CLUSTER_CIDR,
} as const;
