import {
  type Address,
  addressBytes,
  type Family,
  parseAddress,
  parseIPv4Number,
  readIPv6,
} from '../../state/address.ts';
import { Condition, type EndpointSlice, objectKey, type SlicePort } from '../../state/types.ts';
import type { Interner } from '../interner.ts';
import { type Decoded, type Door, open, type RawObject, show } from './door.ts';

const headlessLabel = 'service.kubernetes.io/headless';
const serviceNameLabel = 'kubernetes.io/service-name';
const triggerTimeAnnotation = 'endpoints.kubernetes.io/last-change-trigger-time';
const protocols = ['TCP', 'UDP', 'SCTP'] as const;
const families = ['IPv4', 'IPv6'] as const;
const noHints: readonly string[] = Object.freeze([]);

/**
 * An EndpointSlice in columns (behaviour document 4.3). No record for slices of headless
 * Services and of host names. `nodeName` is this node's name.
 */
export function decodeEndpointSlice(
  raw: unknown,
  strings: Interner,
  nodeName: string,
): Decoded<EndpointSlice> {
  const opened = open('EndpointSlice', raw, 'namespaced');
  const { door } = opened;
  if (opened.id === undefined) return { record: undefined, problems: door.problems };
  if (opened.labels[headlessLabel] !== undefined) return { record: undefined, problems: [] };
  if (opened.raw.addressType === 'FQDN') return { record: undefined, problems: [] };
  const service = decodeServiceName(door, opened.labels);
  const family = decodeFamily(door, opened.raw.addressType);
  if (service === undefined || family === undefined) {
    return { record: undefined, problems: door.problems };
  }
  const ports = strings.records(decodePorts(door, opened.raw.ports));
  const columns = decodeEndpoints(door, opened.raw.endpoints, { family, nodeName, strings });
  const record: EndpointSlice = {
    key: opened.id.key,
    service: objectKey(opened.id.namespace, service),
    family,
    ports,
    length: columns.length,
    addresses: columns.addresses,
    conditions: columns.conditions,
    zoneHints: columns.zoneHints,
    triggerTimeMs: decodeTriggerTime(door, opened.metadata),
  };
  return { record, problems: door.problems };
}

function decodeServiceName(door: Door, labels: RawObject): string | undefined {
  const field = `metadata.labels[${serviceNameLabel}]`;
  const service = door.text(labels[serviceNameLabel], field);
  if (service !== undefined && service !== '') return service;
  return door.refuse(field, 'is missing: it names the Service of the endpoints');
}

function decodeFamily(door: Door, value: unknown): Family | undefined {
  if (value !== undefined && value !== null && value !== '') {
    return door.choice(value, 'addressType', families, 'IPv4');
  }
  return door.refuse('addressType', 'is missing: give IPv4 or IPv6');
}

function decodeTriggerTime(door: Door, metadata: RawObject): number | undefined {
  const annotations = door.object(metadata.annotations, 'metadata.annotations');
  const field = `metadata.annotations[${triggerTimeAnnotation}]`;
  const text = door.text(annotations?.[triggerTimeAnnotation], field);
  if (text === undefined || text === '') return undefined;
  const triggerTimeMs = Date.parse(text);
  if (Number.isFinite(triggerTimeMs)) return triggerTimeMs;
  return door.refuse(field, `is no time: ${show(text)}`);
}

/** Ports without a name or number mean "any": this proxy, like upstream, does not serve those. */
function decodePorts(door: Door, value: unknown): SlicePort[] {
  const ports: SlicePort[] = [];
  const list = door.list(value, 'ports');
  for (let i = 0; i < list.length; i += 1) {
    door.within('ports', i);
    const raw = door.object(list[i], '');
    if (raw === undefined) continue;
    const name = door.text(raw.name, 'name');
    const port = door.whole(raw.port, 'port', { min: 0, max: 65_535 });
    const protocol = door.choice(raw.protocol, 'protocol', protocols, 'TCP');
    if (name === undefined || protocol === undefined) continue;
    if (port === undefined || port === 'invalid' || port === 0) continue;
    ports.push({ name, protocol, port });
  }
  door.outside();
  return ports;
}

interface EndpointContext {
  readonly family: Family;
  readonly nodeName: string;
  readonly strings: Interner;
}

type Columns = Pick<EndpointSlice, 'length' | 'addresses' | 'conditions' | 'zoneHints'>;

/** Straight into the columns, without an object for each endpoint. */
function decodeEndpoints(door: Door, value: unknown, context: EndpointContext): Columns {
  const list = door.list(value, 'endpoints');
  const stride = addressBytes[context.family];
  // Of Node's pool: they are strings soon.
  const addresses = Buffer.allocUnsafe(list.length * stride);
  const conditions = Buffer.allocUnsafe(list.length);
  let zoneHints: (readonly string[])[] | undefined;
  let length = 0;
  for (let i = 0; i < list.length; i += 1) {
    door.within('endpoints', i);
    const raw = door.object(list[i], '');
    if (raw === undefined) continue;
    const hasAddress = decodeEndpointAddress(door, raw, context.family, addresses, length * stride);
    const bits = decodeConditions(door, raw);
    if (!hasAddress || bits === undefined) continue;
    const hints = door.object(raw.hints, 'hints');
    conditions[length] = bits | placeBits(door, raw, hints, context.nodeName);
    const zones = hints === undefined ? noHints : hintNames(door, hints, 'forZones');
    if (zones.length > 0) {
      zoneHints ??= list.map(() => noHints);
      zoneHints[length] = context.strings.list(zones);
    }
    length += 1;
  }
  door.outside();
  return {
    length,
    addresses: addresses.toString('latin1', 0, length * stride),
    conditions: conditions.toString('latin1', 0, length),
    zoneHints: length === list.length ? zoneHints : zoneHints?.slice(0, length),
  };
}

/** `Condition` bits that depend on this node. */
function placeBits(
  door: Door,
  raw: RawObject,
  hints: RawObject | undefined,
  nodeName: string,
): number {
  const local = raw.nodeName === nodeName ? Condition.local : 0;
  if (hints === undefined) return local;
  const nodes = hintNames(door, hints, 'forNodes');
  return (
    local |
    (nodes.length > 0 ? Condition.nodeHinted : 0) |
    (nodes.includes(nodeName) ? Condition.nodeHintedHere : 0)
  );
}

/**
 * Writes the address into `bytes` at `at`; false when there is none that can be used. Only the
 * first address counts: what consumers should do with more was never defined.
 */
function decodeEndpointAddress(
  door: Door,
  raw: RawObject,
  family: Family,
  bytes: Uint8Array,
  at: number,
): boolean {
  const text = door.text(door.list(raw.addresses, 'addresses')[0], 'addresses[0]');
  if (text === undefined) {
    door.refuse('addresses', 'has no address');
    return false;
  }
  if (family === 'IPv4') {
    const value = parseIPv4Number(text);
    if (value !== undefined && !isSpecialIPv4(value)) {
      bytes[at] = value >>> 24;
      bytes[at + 1] = value >>> 16;
      bytes[at + 2] = value >>> 8;
      bytes[at + 3] = value;
      return true;
    }
  } else if (readIPv6(text, bytes, at) && isOrdinaryIPv6(bytes[at]!)) {
    return true;
  }
  const problem = addressProblem(text, family, bytes, at);
  if (problem !== undefined) door.refuse('addresses[0]', problem);
  return problem === undefined;
}

/** Writes an address of any form; why it can't, if so. */
function addressProblem(
  text: string,
  family: Family,
  bytes: Uint8Array,
  at: number,
): string | undefined {
  const address = parseAddress(text);
  if (address === undefined) return `is no IP address: ${show(text)}`;
  if (address.family !== family) return `${show(text)} is no ${family} address`;
  const special = specialUse(address);
  if (special !== undefined) return `${show(text)} is ${special}: not usable for an endpoint`;
  bytes.set(address.bytes, at);
  return undefined;
}

/** Whether `specialUse` has something to say about an IPv4 address, without making one. */
function isSpecialIPv4(value: number): boolean {
  const first = value >>> 24;
  if (value === 0 || first === 127) return true;
  return value >>> 16 === 0xa9fe || (first >= 224 && first <= 239);
}

/** By its first byte: of 2000::/3 or fc00::/7, where nothing is special and nothing is IPv4. */
function isOrdinaryIPv6(first: number): boolean {
  return (first & 0xe0) === 0x20 || (first & 0xfe) === 0xfc;
}

/**
 * Why an address cannot be an endpoint, if so. Kubernetes refuses these too
 * (ValidateEndpointIP): they would let whoever writes slices reach the node's own sockets.
 */
function specialUse({ family, bytes }: Address): string | undefined {
  if (bytes.every((byte) => byte === 0)) return 'the unspecified address';
  const [first = 0, second = 0] = bytes;
  if (family === 'IPv4') {
    if (first === 127) return 'a loopback address';
    if (first === 169 && second === 254) return 'a link-local address';
    return first >= 224 && first <= 239 ? 'a multicast address' : undefined;
  }
  if (bytes[15] === 1 && bytes.subarray(0, 15).every((byte) => byte === 0)) {
    return 'a loopback address';
  }
  if (first === 0xfe && (second & 0xc0) === 0x80) return 'a link-local address';
  return first === 0xff ? 'a multicast address' : undefined;
}

/** `Condition` bits ready, serving and terminating; undefined when one cannot be read. */
function decodeConditions(door: Door, raw: RawObject): number | undefined {
  const conditions = door.object(raw.conditions, 'conditions');
  if (conditions === undefined) return Condition.ready | Condition.serving;
  const ready = door.flag(conditions.ready, 'conditions.ready');
  const serving = door.flag(conditions.serving, 'conditions.serving');
  const terminating = door.flag(conditions.terminating, 'conditions.terminating');
  if (ready === 'invalid' || serving === 'invalid' || terminating === 'invalid') return undefined;
  return (
    ((ready ?? true) ? Condition.ready : 0) |
    ((serving ?? true) ? Condition.serving : 0) |
    (terminating === true ? Condition.terminating : 0)
  );
}

function hintNames(door: Door, hints: RawObject, field: 'forZones' | 'forNodes'): string[] {
  const names: string[] = [];
  for (const element of door.list(hints[field], `hints.${field}`)) {
    const name = door.text(door.object(element, `hints.${field}`)?.name, `hints.${field}`);
    if (name !== undefined && name !== '') names.push(name);
  }
  return names;
}
