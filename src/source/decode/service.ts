import {
  type Address,
  addressKey,
  type CIDR,
  parseAddress,
  parseCIDR,
} from '../../state/address.ts';
import type { Service, ServicePort } from '../../state/types.ts';
import { type Interner, lasting } from '../interner.ts';
import { type Decoded, type Door, open, type RawObject, show } from './door.ts';

const proxyNameLabel = 'service.kubernetes.io/service-proxy-name';
const protocols = ['TCP', 'UDP', 'SCTP'] as const;
const types = ['ClusterIP', 'NodePort', 'LoadBalancer'] as const;
const policies = ['Cluster', 'Local'] as const;
const anyPort = { min: 1, max: 65_535 };
const portOrNone = { min: 0, max: 65_535 };

/** So much of a list is read, for an address takes twenty times what it takes in the object. */
const addressesMax = 10_000;
const sourceRangesMax = 20_000;

/** What the API server fills in when sessionAffinityConfig does not say. */
const defaultAffinityTimeoutSeconds = 10_800;
/** An API server accepts no longer one. */
const maxAffinityTimeoutSeconds = 86_400;

/** Blocks that hold no client: what is left of source ranges that could not be read. */
const nobody = ['0.0.0.0/32', '::/128'].map((text) => parseCIDR(text)!);

/**
 * A Service as this proxy sees it (behaviour document 5.1, 5.2). No record for Services that are
 * not ours to serve: headless, ExternalName, or labelled for another proxy.
 */
export function decodeService(raw: unknown, strings: Interner): Decoded<Service> {
  const opened = open('Service', raw, 'namespaced');
  const { door } = opened;
  if (opened.id === undefined) return { record: undefined, problems: door.problems };
  const spec = door.object(opened.raw.spec, 'spec') ?? {};
  if (opened.labels[proxyNameLabel] !== undefined) return { record: undefined, problems: [] };
  if (spec.type === 'ExternalName') return { record: undefined, problems: [] };
  const clusterIPs = decodeClusterIPs(door, spec);
  const type = door.choice(spec.type, 'spec.type', types, 'ClusterIP');
  if (clusterIPs.length === 0 || type === undefined) {
    return { record: undefined, problems: door.problems };
  }
  const policy = (field: 'internalTrafficPolicy' | 'externalTrafficPolicy') =>
    door.choice(spec[field], `spec.${field}`, policies, 'Cluster') ?? 'Cluster';
  const externalTrafficPolicy = policy('externalTrafficPolicy');
  const record: Service = {
    key: opened.id.key,
    namespace: strings.string(opened.id.namespace),
    name: opened.id.name,
    uid: door.text(opened.metadata.uid, 'metadata.uid') ?? '',
    createdMs: decodeCreated(door, opened.metadata.creationTimestamp),
    type,
    clusterIPs: lasting(clusterIPs),
    externalIPs: lasting(decodeExternalIPs(door, spec.externalIPs)),
    loadBalancerIPs: lasting(decodeIngress(door, opened.raw.status)),
    loadBalancerSourceRanges: lasting(decodeSourceRanges(door, spec.loadBalancerSourceRanges)),
    internalTrafficPolicy: policy('internalTrafficPolicy'),
    externalTrafficPolicy,
    healthCheckNodePort:
      type === 'LoadBalancer' && externalTrafficPolicy === 'Local'
        ? decodeHealthCheckNodePort(door, spec.healthCheckNodePort)
        : 0,
    affinityTimeoutSeconds: decodeAffinity(door, spec),
    ports: strings.records(decodePorts(door, spec.ports)),
  };
  return { record, problems: door.problems };
}

/** Milliseconds since the epoch; 0, older than everything, when nothing says. */
function decodeCreated(door: Door, value: unknown): number {
  const text = door.text(value, 'metadata.creationTimestamp') ?? '';
  if (text === '') return 0;
  const createdMs = Date.parse(text);
  if (Number.isFinite(createdMs)) return createdMs;
  door.refuse('metadata.creationTimestamp', `is no time: ${show(text)}`);
  return 0;
}

/**
 * `clusterIPs[i]` belongs to `ipFamilies[i]`; objects older than dual stack have only
 * `clusterIP`. Empty for headless Services, silently, and for unusable ones.
 */
function decodeClusterIPs(door: Door, spec: RawObject): Address[] {
  const listed = door.list(spec.clusterIPs, 'spec.clusterIPs');
  const texts = listed.length > 0 ? listed : [spec.clusterIP];
  if (spec.clusterIP === 'None' || texts[0] === 'None') return [];
  if (texts[0] === undefined || texts[0] === null || texts[0] === '') {
    door.refuse('spec.clusterIP', 'is missing: give one, this proxy does not allocate addresses');
    return [];
  }
  const families = door.list(spec.ipFamilies, 'spec.ipFamilies');
  const addresses: Address[] = [];
  for (let i = 0; i < texts.length; i += 1) {
    const text = texts[i];
    const field = listed.length > 0 ? `spec.clusterIPs[${i}]` : 'spec.clusterIP';
    const address = decodeAddress(door, text, field);
    if (address === undefined) continue;
    if (families.length > 0 && families[i] !== address.family) {
      door.refuse(field, `${show(text)} is not of ipFamilies[${i}], ${show(families[i] ?? null)}`);
    } else if (addresses.some((other) => other.family === address.family)) {
      door.refuse(field, `is a second ${address.family} address`);
    } else {
      addresses.push(address);
    }
  }
  return addresses;
}

function decodeAddress(door: Door, value: unknown, field: string): Address | undefined {
  const text = door.text(value, field);
  if (text === undefined) return undefined;
  return parseAddress(text) ?? door.refuse(field, `is no IP address: ${show(text)}`);
}

/** Blank entries mean nothing, as upstream has it. */
function decodeExternalIPs(door: Door, value: unknown): readonly Address[] {
  const addresses: Address[] = [];
  const list = door.list(value, 'spec.externalIPs', addressesMax);
  for (let i = 0; i < list.length; i += 1) {
    const text = list[i];
    if (typeof text === 'string' && text.trim() === '') continue;
    const address = decodeAddress(door, text, `spec.externalIPs[${i}]`);
    if (address !== undefined) addresses.push(address);
  }
  return distinct(addresses);
}

/** Addresses that the load balancer leaves for us to answer: not those it proxies itself. */
function decodeIngress(door: Door, rawStatus: unknown): readonly Address[] {
  const status = door.object(rawStatus, 'status');
  const loadBalancer = door.object(status?.loadBalancer, 'status.loadBalancer');
  const field = 'status.loadBalancer.ingress';
  const addresses: Address[] = [];
  const list = door.list(loadBalancer?.ingress, field, addressesMax);
  for (let i = 0; i < list.length; i += 1) {
    door.within(field, i);
    const ingress = door.object(list[i], '');
    if (ingress?.ip === undefined || ingress.ip === null || ingress.ip === '') continue;
    const mode = door.choice(ingress.ipMode, 'ipMode', ['VIP', 'Proxy'], 'VIP');
    const address = decodeAddress(door, ingress.ip, 'ip');
    if (mode === 'VIP' && address !== undefined) addresses.push(address);
  }
  door.outside();
  return distinct(addresses);
}

function distinct(addresses: readonly Address[]): readonly Address[] {
  if (addresses.length < 2) return addresses;
  const byKey = new Map(addresses.map((address) => [addressKey(address), address]));
  return [...byKey.values()];
}

/**
 * A block of length 0 allows every client of its family, whatever else is listed. When ranges
 * were given and none can be read, nobody is let in: a typing error must not open a Service.
 */
function decodeSourceRanges(door: Door, value: unknown): readonly CIDR[] {
  const ranges: CIDR[] = [];
  const field = 'spec.loadBalancerSourceRanges';
  const before = door.faults;
  const list = door.list(value, field, sourceRangesMax);
  for (let i = 0; i < list.length; i += 1) {
    const trimmed = door.text(list[i], `${field}[${i}]`)?.trim();
    if (trimmed === undefined || trimmed === '') continue;
    const range = parseCIDR(trimmed);
    if (range !== undefined) ranges.push(range);
    else door.refuse(`${field}[${i}]`, `is no address block: ${show(trimmed)}`);
  }
  if (ranges.length === 0) return door.faults > before ? nobody : ranges;
  const open = new Set(
    ranges.filter((range) => range.prefixLength === 0).map((range) => range.address.family),
  );
  return ranges.filter((range) => !open.has(range.address.family));
}

function decodeHealthCheckNodePort(door: Door, value: unknown): number {
  const port = door.whole(value, 'spec.healthCheckNodePort', portOrNone) ?? 0;
  if (port === 'invalid') return 0;
  if (port === 0) {
    door.refuse('spec.healthCheckNodePort', 'is missing: load balancers cannot ask for health');
  }
  return port;
}

/** Seconds; 0 = no affinity. */
function decodeAffinity(door: Door, spec: RawObject): number {
  const affinity = door.choice(
    spec.sessionAffinity,
    'spec.sessionAffinity',
    ['None', 'ClientIP'],
    'None',
  );
  if (affinity !== 'ClientIP') return 0;
  const field = 'spec.sessionAffinityConfig';
  const config = door.object(spec.sessionAffinityConfig, field);
  const clientIP = door.object(config?.clientIP, `${field}.clientIP`);
  const seconds = door.whole(clientIP?.timeoutSeconds, `${field}.clientIP.timeoutSeconds`, {
    min: 1,
    max: maxAffinityTimeoutSeconds,
  });
  if (seconds === undefined || seconds === 'invalid') return defaultAffinityTimeoutSeconds;
  return seconds;
}

/** A port that clashes with an earlier one of the same Service is refused, not merged. */
function decodePorts(door: Door, value: unknown): ServicePort[] {
  const ports: ServicePort[] = [];
  const names = new Set<string>();
  const numbers = new Set<string>();
  const list = door.list(value, 'spec.ports');
  for (let i = 0; i < list.length; i += 1) {
    door.within('spec.ports', i);
    const port = decodePort(door, list[i]);
    if (port === undefined) continue;
    const { name, protocol } = port;
    const [byName, byNumber] = [`${protocol}/${name}`, `${protocol}/${port.port}`];
    if (names.has(byName)) {
      door.refuse('name', `${show(name)} is used twice for ${protocol}`);
    } else if (numbers.has(byNumber)) {
      door.refuse('port', `${port.port} is used twice for ${protocol}`);
    } else {
      names.add(byName);
      numbers.add(byNumber);
      ports.push(port);
    }
  }
  door.outside();
  return ports;
}

function decodePort(door: Door, value: unknown): ServicePort | undefined {
  const raw = door.object(value, '');
  if (raw === undefined) return undefined;
  const name = door.text(raw.name, 'name') ?? '';
  const protocol = door.choice(raw.protocol, 'protocol', protocols, 'TCP');
  const port = door.whole(raw.port, 'port', anyPort);
  const nodePort = door.whole(raw.nodePort, 'nodePort', portOrNone) ?? 0;
  if (port === undefined) return door.refuse('port', 'is missing');
  if (port === 'invalid' || protocol === undefined) return undefined;
  // A frontend less is better than a ServicePort less.
  return { name, protocol, port, nodePort: nodePort === 'invalid' ? 0 : nodePort };
}
