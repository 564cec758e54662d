import {
  type Address,
  addressKey,
  type CIDR,
  formatAddress,
  parseCIDR,
} from '../../net/address.ts';
import type { Service, ServicePort } from '../../state/types.ts';
import { type Interner, lasting } from '../interner.ts';
import { readCIDR, readServiceAddress } from './addresses.ts';
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
    // Older than everything, when nothing says.
    createdMs: door.time(opened.metadata.creationTimestamp, 'metadata.creationTimestamp') ?? 0,
    type,
    clusterIPs: lasting(clusterIPs),
    externalIPs: lasting(decodeExternalIPs(door, spec.externalIPs, clusterIPs)),
    loadBalancerIPs: lasting(decodeIngress(door, opened.raw.status, clusterIPs)),
    loadBalancerSourceRanges: lasting(decodeSourceRanges(door, spec.loadBalancerSourceRanges)),
    internalTrafficPolicy: policy('internalTrafficPolicy'),
    externalTrafficPolicy,
    healthCheckNodePort: decodeHealthCheckNodePort(
      door,
      spec.healthCheckNodePort,
      type === 'LoadBalancer' && externalTrafficPolicy === 'Local',
    ),
    affinityTimeoutSeconds: decodeAffinity(door, spec),
    ports: strings.records(decodePorts(door, spec.ports)),
  };
  return { record, problems: door.problems };
}

/**
 * `clusterIPs[i]` belongs to `ipFamilies[i]`; objects older than dual stack have only
 * `clusterIP`. Empty for headless Services, silently, and for unusable ones.
 */
function decodeClusterIPs(door: Door, spec: RawObject): Address[] {
  const listed = door.list(spec.clusterIPs, 'spec.clusterIPs');
  const texts = listed.length > 0 ? listed : [spec.clusterIP];
  const [first] = texts;
  if ((spec.clusterIP ?? '') !== '' && spec.clusterIP !== first) {
    door.refuse('spec.clusterIP', `${show(spec.clusterIP)} is not clusterIPs[0], ${show(first)}`);
  }
  if (spec.clusterIP === 'None' || first === 'None') return [];
  if (first === undefined || first === null || first === '') {
    door.refuse('spec.clusterIP', 'is missing: give one, this proxy does not allocate addresses');
    return [];
  }
  const families = door.list(spec.ipFamilies, 'spec.ipFamilies');
  const addresses: Address[] = [];
  for (let i = 0; i < texts.length; i += 1) {
    const text = texts[i];
    const field = listed.length > 0 ? `spec.clusterIPs[${i}]` : 'spec.clusterIP';
    const address = readServiceAddress(door, text, field);
    if (address === undefined) continue;
    if (families.length > 0 && families[i] !== address.family) {
      door.refuse(field, `${show(text)} is not of ipFamilies[${i}], ${show(families[i] ?? null)}`);
    } else if (addresses.some((other) => other.family === address.family)) {
      door.refuse(field, `is a second ${address.family} address`);
    } else {
      addresses.push(address);
    }
  }
  for (let i = texts.length; i < families.length; i += 1) {
    door.refuse(`spec.ipFamilies[${i}]`, `${show(families[i])} has no address in clusterIPs`);
  }
  return addresses;
}

function decodeExternalIPs(door: Door, value: unknown, own: readonly Address[]) {
  const addresses: Address[] = [];
  const list = door.list(value, 'spec.externalIPs', addressesMax);
  for (let i = 0; i < list.length; i += 1) {
    const field = `spec.externalIPs[${i}]`;
    const address = readServiceAddress(door, list[i], field);
    if (address === undefined) continue;
    noteFamily(door, field, address, own);
    addresses.push(address);
  }
  return distinct(addresses);
}

/** Addresses that the load balancer leaves for us to answer: not those it proxies itself. */
function decodeIngress(door: Door, rawStatus: unknown, own: readonly Address[]) {
  const status = door.object(rawStatus, 'status');
  const loadBalancer = door.object(status?.loadBalancer, 'status.loadBalancer');
  const field = 'status.loadBalancer.ingress';
  const addresses: Address[] = [];
  const list = door.list(loadBalancer?.ingress, field, addressesMax);
  for (let i = 0; i < list.length; i += 1) {
    door.within(field, i);
    const ingress = door.objectItem(list[i]);
    if (ingress?.ip === undefined || ingress.ip === null || ingress.ip === '') continue;
    const mode = door.choice(ingress.ipMode, 'ipMode', ['VIP', 'Proxy'], 'VIP');
    if (mode !== 'VIP') continue;
    const address = readServiceAddress(door, ingress.ip, 'ip');
    if (address === undefined) continue;
    noteFamily(door, 'ip', address, own);
    addresses.push(address);
  }
  door.outside();
  return distinct(addresses);
}

/** A Service is served in the families that it has a ClusterIP of (5.1). */
function noteFamily(
  door: Door,
  field: string,
  { family, bytes }: Address,
  own: readonly Address[],
) {
  if (own.some((address) => address.family === family)) return;
  const text = formatAddress(bytes);
  door.refuse(field, `"${text}" is not served: the Service has no ${family} ClusterIP`);
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
    const text: unknown = list[i];
    const trimmed = typeof text === 'string' ? text.trim() : text;
    const range = readCIDR(door, trimmed, `${field}[${i}]`);
    if (range !== undefined) ranges.push(range);
  }
  if (ranges.length === 0) return door.faults > before ? nobody : ranges;
  const open = new Set(
    ranges.filter((range) => range.prefixLength === 0).map((range) => range.address.family),
  );
  return ranges.filter((range) => !open.has(range.address.family));
}

/** 0 = none. `isNeeded`: for load balancers with policy Local, and nobody else. */
function decodeHealthCheckNodePort(door: Door, value: unknown, isNeeded: boolean): number {
  const field = 'spec.healthCheckNodePort';
  const port = door.whole(value, field, portOrNone) ?? 0;
  if (port === 'invalid') return 0;
  if (isNeeded && port === 0) {
    door.refuse(field, 'is missing: load balancers cannot ask for health');
  }
  if (isNeeded || port === 0) return port;
  const who = 'only type LoadBalancer with externalTrafficPolicy Local has one';
  door.refuse(field, `${port} is not served: ${who}`);
  return 0;
}

/** Seconds; 0 = no affinity. */
function decodeAffinity(door: Door, spec: RawObject): number {
  const affinity = door.choice(
    spec.sessionAffinity,
    'spec.sessionAffinity',
    ['None', 'ClientIP'],
    'None',
  );
  const field = 'spec.sessionAffinityConfig';
  const config = door.object(spec.sessionAffinityConfig, field);
  if (affinity !== 'ClientIP') {
    const isGiven = (config?.clientIP ?? undefined) !== undefined;
    if (isGiven) door.refuse(field, 'has no effect: sessionAffinity is not ClientIP');
    return 0;
  }
  const clientIP = door.object(config?.clientIP, `${field}.clientIP`);
  const seconds = door.whole(clientIP?.timeoutSeconds, `${field}.clientIP.timeoutSeconds`, {
    min: 1,
    max: maxAffinityTimeoutSeconds,
  });
  if (seconds === undefined || seconds === 'invalid') return defaultAffinityTimeoutSeconds;
  return seconds;
}

/**
 * A port that clashes with an earlier one of the same Service is refused, not merged; of a node
 * port that does, the rest stays.
 */
function decodePorts(door: Door, value: unknown): ServicePort[] {
  const ports: ServicePort[] = [];
  const names = new Set<string>();
  const numbers = new Set<string>();
  const nodePorts = new Set<string>();
  const list = door.list(value, 'spec.ports');
  for (let i = 0; i < list.length; i += 1) {
    door.within('spec.ports', i);
    const port = decodePort(door, list[i]);
    if (port === undefined) continue;
    const { name, nodePort, protocol } = port;
    const [byName, byNumber] = [`${protocol}/${name}`, `${protocol}/${port.port}`];
    const byNodePort = `${protocol}/${nodePort}`;
    if (names.has(byName)) {
      door.refuse('name', `${show(name)} is used twice for ${protocol}`);
    } else if (numbers.has(byNumber)) {
      door.refuse('port', `${port.port} is used twice for ${protocol}`);
    } else {
      names.add(byName);
      numbers.add(byNumber);
      const isTwice = nodePort !== 0 && nodePorts.has(byNodePort);
      if (isTwice) door.refuse('nodePort', `${nodePort} is used twice for ${protocol}`);
      nodePorts.add(byNodePort);
      ports.push(isTwice ? { ...port, nodePort: 0 } : port);
    }
  }
  door.outside();
  const isEmpty = list.length === 0 && Array.isArray(value ?? list);
  if (isEmpty) door.refuse('spec.ports', 'is empty: nothing is served');
  return ports;
}

function decodePort(door: Door, value: unknown): ServicePort | undefined {
  const raw = door.objectItem(value);
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
