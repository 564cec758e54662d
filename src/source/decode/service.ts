import { isIP } from 'node:net';
import { type Address, type CIDR, formatAddress, parseCIDR } from '../../net/address.ts';
import { addressList, blockList } from '../../net/address-columns.ts';
import { arrayMax } from '../../net/list.ts';
import { protocols } from '../../net/protocol.ts';
import { packedPorts } from '../../state/port-list.ts';
import type { Service, ServicePort, UnservedService } from '../../state/types.ts';
import { type Interner, lasting } from '../interner.ts';
import { readCIDR, readServiceAddress } from './addresses.ts';
import {
  annotationsOf,
  decodeBalancing,
  decodeDetection,
  decodeEndings,
  decodeLimits,
  decodePortRange,
} from './annotations.ts';
import { endsStep, entriesMax } from './entries.ts';
import {
  type Decoded,
  type FieldReader,
  objectOf,
  open,
  type RawObject,
  show,
} from './field-reader.ts';
import { proxyNameLabel } from './names.ts';

const types = ['ClusterIP', 'NodePort', 'LoadBalancer'] as const;
const policies = ['Cluster', 'Local'] as const;
const anyPort = { min: 1, max: 65_535 };
const portOrNone = { min: 0, max: 65_535 };

/** The API server's default when sessionAffinityConfig has none. */
const defaultAffinityTimeoutSeconds = 10_800;
/** The longest timeout that an API server accepts. */
const maxAffinityTimeoutSeconds = 86_400;

/** Blocks that contain no clients: they replace source ranges that cannot be read. */
const noClients = ['0.0.0.0/32', '::/128'].map((text) => parseCIDR(text)!);

/**
 * Decodes a Service (behaviour document 5.1, 5.2), in steps. No record for Services that are not
 * served: headless, ExternalName, or for another proxy. `proxyName`: the label of those for this
 * one; empty = they have none.
 */
export function* serviceInSteps(
  raw: unknown,
  strings: Interner,
  proxyName = '',
): Generator<undefined, Decoded<Service>> {
  const opened = open('Service', raw, 'namespaced');
  const { fields } = opened;
  if (opened.id === undefined) return { record: undefined, problems: fields.problems };
  const spec = fields.object(opened.raw.spec, 'spec') ?? {};
  const proxy = opened.labels[proxyNameLabel];
  if (proxy !== (proxyName || undefined)) return { record: undefined, problems: [] };
  if (spec.type === 'ExternalName') return { record: undefined, problems: [] };
  const clusterIPs = decodeClusterIPs(fields, spec);
  const type = fields.choice(spec.type, 'spec.type', types, 'ClusterIP');
  if (clusterIPs.length === 0 || type === undefined) {
    return { record: undefined, problems: fields.problems };
  }
  const policy = (field: 'internalTrafficPolicy' | 'externalTrafficPolicy') =>
    fields.choice(spec[field], `spec.${field}`, policies, 'Cluster') ?? 'Cluster';
  const externalTrafficPolicy = policy('externalTrafficPolicy');
  const annotations = fields.object(opened.metadata.annotations, 'metadata.annotations');
  const asked = annotationsOf(fields, annotations, 'Service');
  const limits = decodeLimits(asked);
  const record: Service = {
    key: opened.id.key,
    namespace: strings.string(opened.id.namespace),
    name: opened.id.name,
    uid: fields.text(opened.metadata.uid, 'metadata.uid') ?? '',
    // Without a time it counts as older than all others.
    createdMs: fields.time(opened.metadata.creationTimestamp, 'metadata.creationTimestamp') ?? 0,
    type,
    clusterIPs: lasting(clusterIPs),
    externalIPs: addressList(
      lasting(yield* decodeExternalIPs(fields, spec.externalIPs, clusterIPs)),
    ),
    loadBalancerIPs: addressList(
      lasting(yield* decodeIngress(fields, opened.raw.status, clusterIPs)),
    ),
    loadBalancerSourceRanges: blockList(
      lasting(yield* decodeSourceRanges(fields, spec.loadBalancerSourceRanges)),
    ),
    internalTrafficPolicy: policy('internalTrafficPolicy'),
    externalTrafficPolicy,
    healthCheckNodePort: decodeHealthCheckNodePort(
      fields,
      spec.healthCheckNodePort,
      type === 'LoadBalancer' && externalTrafficPolicy === 'Local',
    ),
    affinityTimeoutSeconds: decodeAffinity(fields, spec),
    // Programs at connect time would bypass the limits.
    rulesOnly: asked('fairlead.io/connect-time') === 'off' || limits !== undefined,
    ...(asked('fairlead.io/fast-path') === 'off' && { isFastPathOff: true as const }),
    ...(asked('fairlead.io/source-ranges') === 'all' && { guardsAll: true as const }),
    balancing: decodeBalancing(asked),
    detection: decodeDetection(asked),
    endings: decodeEndings(asked),
    limits,
    awaitedLoadBalancer:
      type === 'LoadBalancer' ? decodeAwaited(fields, spec, opened.raw.status) : undefined,
    ...(Object.keys(objectOf(spec.selector)).length > 0 && { hasSelector: true as const }),
    ports: yield* decodePorts(fields, spec.ports, strings),
  };
  const portRange = decodePortRange(asked, record.ports, fields);
  const whole = portRange === undefined ? record : { ...record, portRange };
  return { record: whole, problems: fields.problems };
}

/** The facts about a Service that is not served here; undefined: nothing. */
export function decodeUnserved(raw: unknown, proxyName = ''): UnservedService | undefined {
  const opened = open('Service', raw, 'namespaced');
  if (opened.id === undefined) return undefined;
  const spec = objectOf(opened.raw.spec);
  const { clusterIP, clusterIPs, externalName, type } = spec;
  const listed = Array.isArray(clusterIPs) && clusterIPs.length > 0 ? clusterIPs : [clusterIP];
  const addresses = listed.map(String).filter((text) => isIP(text) !== 0);
  const { key } = opened.id;
  const proxy = opened.labels[proxyNameLabel];
  if (proxy !== (proxyName || undefined)) {
    const because =
      proxy === undefined
        ? `it has no label ${proxyNameLabel}, and this proxy is ${show(proxyName)}`
        : `its label ${proxyNameLabel} gives it to the proxy ${show(proxy)}`;
    return { key, because, addresses };
  }
  if (type === 'ExternalName') {
    const because = `it is of type ExternalName: only DNS knows it, as ${show(externalName)}`;
    return { key, because, addresses: [] };
  }
  const because = 'it is headless: DNS gives the addresses of its endpoints';
  return { key, because, addresses: [] };
}

/**
 * `clusterIPs[i]` belongs to `ipFamilies[i]`; objects older than dual stack have only
 * `clusterIP`. Empty for headless Services, silently, and for unusable ones.
 */
function decodeClusterIPs(fields: FieldReader, spec: RawObject): Address[] {
  const listed = fields.list(spec.clusterIPs, 'spec.clusterIPs', entriesMax.others);
  const texts = listed.length > 0 ? listed : [spec.clusterIP];
  const [first] = texts;
  if ((spec.clusterIP ?? '') !== '' && spec.clusterIP !== first) {
    fields.refuse('spec.clusterIP', `${show(spec.clusterIP)} is not clusterIPs[0], ${show(first)}`);
  }
  if (spec.clusterIP === 'None' || first === 'None') return [];
  if (first === undefined || first === null || first === '') {
    fields.refuse('spec.clusterIP', 'is missing: give one, this proxy does not allocate addresses');
    return [];
  }
  const families = fields.list(spec.ipFamilies, 'spec.ipFamilies', entriesMax.others);
  const addresses: Address[] = [];
  for (let i = 0; i < texts.length; i += 1) {
    const text = texts[i];
    const field = listed.length > 0 ? `spec.clusterIPs[${i}]` : 'spec.clusterIP';
    const address = readServiceAddress(fields, text, field);
    if (address === undefined) continue;
    if (families.length > 0 && families[i] !== address.family) {
      fields.refuse(
        field,
        `${show(text)} is not of ipFamilies[${i}], ${show(families[i] ?? null)}`,
      );
    } else if (addresses.some((other) => other.family === address.family)) {
      fields.refuse(field, `is a second ${address.family} address`);
    } else {
      addresses.push(address);
    }
  }
  for (let i = texts.length; i < families.length; i += 1) {
    fields.refuse(`spec.ipFamilies[${i}]`, `${show(families[i])} has no address in clusterIPs`);
  }
  return addresses;
}

function* decodeExternalIPs(
  fields: FieldReader,
  value: unknown,
  own: readonly Address[],
): Generator<undefined, readonly Address[]> {
  const addresses: Address[] = [];
  const list = fields.list(value, 'spec.externalIPs', entriesMax.addresses);
  for (let i = 0; i < list.length; i += 1) {
    if (endsStep(i)) yield;
    const field = `spec.externalIPs[${i}]`;
    const address = readServiceAddress(fields, list[i], field);
    if (address === undefined) continue;
    noteFamily(fields, field, address, own);
    addresses.push(address);
  }
  return distinct(addresses);
}

/** Addresses of the load balancer that nodes serve: not those that it proxies itself. */
function* decodeIngress(
  fields: FieldReader,
  rawStatus: unknown,
  own: readonly Address[],
): Generator<undefined, readonly Address[]> {
  const status = fields.object(rawStatus, 'status');
  const loadBalancer = fields.object(status?.loadBalancer, 'status.loadBalancer');
  const field = 'status.loadBalancer.ingress';
  const addresses: Address[] = [];
  const list = fields.list(loadBalancer?.ingress, field, entriesMax.addresses);
  for (let i = 0; i < list.length; i += 1) {
    if (endsStep(i)) yield;
    fields.within(field, i);
    const ingress = fields.objectItem(list[i]);
    if (ingress?.ip === undefined || ingress.ip === null || ingress.ip === '') continue;
    const mode = fields.choice(ingress.ipMode, 'ipMode', ['VIP', 'Proxy'], 'VIP');
    if (mode !== 'VIP') continue;
    const address = readServiceAddress(fields, ingress.ip, 'ip');
    if (address === undefined) continue;
    noteFamily(fields, 'ip', address, own);
    addresses.push(address);
  }
  fields.outside();
  return distinct(addresses);
}

/** The class of load balancers that a Service waits for; see `Service.awaitedLoadBalancer`. */
function decodeAwaited(fields: FieldReader, spec: RawObject, rawStatus: unknown) {
  const { ingress } = objectOf(objectOf(rawStatus).loadBalancer);
  if (Array.isArray(ingress) && ingress.length > 0) return undefined;
  return fields.text(spec.loadBalancerClass, 'spec.loadBalancerClass') ?? '';
}

/** A Service is served in the families that it has a ClusterIP of (5.1). */
function noteFamily(
  fields: FieldReader,
  field: string,
  { family, bytes }: Address,
  own: readonly Address[],
) {
  if (own.some((address) => address.family === family)) return;
  const text = formatAddress(bytes);
  fields.refuse(field, `"${text}" is not served: the Service has no ${family} ClusterIP`);
}

function distinct(addresses: readonly Address[]): readonly Address[] {
  if (addresses.length < 2) return addresses;
  const byKey = new Map(addresses.map((address) => [address.key, address]));
  return [...byKey.values()];
}

/**
 * A block of length 0 allows every client of its family, regardless of other blocks. If ranges are
 * given and none can be read, no client is allowed: a typing error must not open a Service.
 */
function* decodeSourceRanges(
  fields: FieldReader,
  value: unknown,
): Generator<undefined, readonly CIDR[]> {
  const ranges: CIDR[] = [];
  const field = 'spec.loadBalancerSourceRanges';
  const before = fields.faults;
  const list = fields.list(value, field, entriesMax.sourceRanges);
  for (let i = 0; i < list.length; i += 1) {
    if (endsStep(i)) yield;
    const text: unknown = list[i];
    const trimmed = typeof text === 'string' ? text.trim() : text;
    const range = readCIDR(fields, trimmed, `${field}[${i}]`);
    if (range !== undefined) ranges.push(range);
  }
  if (ranges.length === 0) return fields.faults > before ? noClients : ranges;
  const open = new Set(
    ranges.filter((range) => range.prefixLength === 0).map((range) => range.address.family),
  );
  return ranges.filter((range) => !open.has(range.address.family));
}

/** 0 = none. `isNeeded`: the Service is a load balancer with policy Local. */
function decodeHealthCheckNodePort(fields: FieldReader, value: unknown, isNeeded: boolean): number {
  const field = 'spec.healthCheckNodePort';
  const port = fields.whole(value, field, portOrNone) ?? 0;
  if (port === 'invalid') return 0;
  if (isNeeded && port === 0) {
    fields.refuse(field, 'is missing: load balancers cannot ask for health');
  }
  if (isNeeded || port === 0) return port;
  const who = 'only type LoadBalancer with externalTrafficPolicy Local has one';
  fields.refuse(field, `${port} is not served: ${who}`);
  return 0;
}

/** Seconds; 0 = no affinity. */
function decodeAffinity(fields: FieldReader, spec: RawObject): number {
  const affinity = fields.choice(
    spec.sessionAffinity,
    'spec.sessionAffinity',
    ['None', 'ClientIP'],
    'None',
  );
  const field = 'spec.sessionAffinityConfig';
  const config = fields.object(spec.sessionAffinityConfig, field);
  if (affinity !== 'ClientIP') {
    const isGiven = (config?.clientIP ?? undefined) !== undefined;
    if (isGiven) fields.refuse(field, 'has no effect: sessionAffinity is not ClientIP');
    return 0;
  }
  const clientIP = fields.object(config?.clientIP, `${field}.clientIP`);
  const seconds = fields.whole(clientIP?.timeoutSeconds, `${field}.clientIP.timeoutSeconds`, {
    min: 1,
    max: maxAffinityTimeoutSeconds,
  });
  if (seconds === undefined || seconds === 'invalid') return defaultAffinityTimeoutSeconds;
  return seconds;
}

/**
 * A port with the name or number of an earlier one is refused. When only its node port is taken,
 * the port is used without the node port.
 */
function* decodePorts(
  fields: FieldReader,
  value: unknown,
  strings: Interner,
): Generator<undefined, Service['ports']> {
  const ports: ServicePort[] = [];
  const list = fields.list(value, 'spec.ports', entriesMax.ports);
  // Most Services have one port.
  const taken = list.length > 1 ? new TakenByPorts(fields) : undefined;
  for (let i = 0; i < list.length; i += 1) {
    if (endsStep(i)) yield;
    fields.within('spec.ports', i);
    const port = decodePort(fields, list[i]);
    const distinct = port && taken ? taken.add(port) : port;
    if (distinct !== undefined) ports.push(distinct);
  }
  fields.outside();
  const isEmpty = list.length === 0 && Array.isArray(value ?? list);
  if (isEmpty) fields.refuse('spec.ports', 'is empty: nothing is served');
  return ports.length > arrayMax ? yield* packedPorts(ports) : strings.records(ports);
}

/** Names, numbers and node ports of the Service's earlier ports, which later ones cannot have. */
class TakenByPorts {
  readonly #fields: FieldReader;
  readonly #ofProtocol = { TCP: new Taken(), UDP: new Taken(), SCTP: new Taken() };

  constructor(fields: FieldReader) {
    this.#fields = fields;
  }

  /** The port without what earlier ports have; undefined: it is refused. */
  add(port: ServicePort): ServicePort | undefined {
    const { name, nodePort, protocol } = port;
    const taken = this.#ofProtocol[protocol];
    if (taken.names.has(name)) {
      return this.#fields.refuse('name', `${show(name)} is used twice for ${protocol}`);
    }
    if (taken.numbers.has(port.port)) {
      return this.#fields.refuse('port', `${port.port} is used twice for ${protocol}`);
    }
    taken.names.add(name);
    taken.numbers.add(port.port);
    if (nodePort === 0) return port;
    if (!taken.nodePorts.has(nodePort)) {
      taken.nodePorts.add(nodePort);
      return port;
    }
    this.#fields.refuse('nodePort', `${nodePort} is used twice for ${protocol}`);
    return { ...port, nodePort: 0 };
  }
}

/** What ports of one protocol have. */
class Taken {
  readonly names = new Set<string>();
  readonly numbers = new Set<number>();
  readonly nodePorts = new Set<number>();
}

function decodePort(fields: FieldReader, value: unknown): ServicePort | undefined {
  const raw = fields.objectItem(value);
  if (raw === undefined) return undefined;
  const name = fields.text(raw.name, 'name') ?? '';
  const protocol = fields.choice(raw.protocol, 'protocol', protocols, 'TCP');
  const port = fields.whole(raw.port, 'port', anyPort);
  const nodePort = fields.whole(raw.nodePort, 'nodePort', portOrNone) ?? 0;
  if (port === undefined) return fields.refuse('port', 'is missing');
  if (port === 'invalid' || protocol === undefined) return undefined;
  // Without a node port the ServicePort still has other frontends.
  return { name, protocol, port, nodePort: nodePort === 'invalid' ? 0 : nodePort };
}
