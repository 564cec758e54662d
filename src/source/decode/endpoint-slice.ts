import { addressBytes, type Family, parseIPv4Number, readIPv6 } from '../../net/address.ts';
import { specialUse } from '../../net/special-address.ts';
import {
  Condition,
  type EndpointSlice,
  objectKey,
  type Place,
  type SlicePort,
} from '../../state/types.ts';
import type { Interner } from '../interner.ts';
import { readAddress } from './addresses.ts';
import { type Decoded, type FieldReader, open, type RawObject, show } from './field-reader.ts';

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
  const { fields } = opened;
  if (opened.id === undefined) return { record: undefined, problems: fields.problems };
  if (opened.labels[headlessLabel] !== undefined) return { record: undefined, problems: [] };
  if (opened.raw.addressType === 'FQDN') return { record: undefined, problems: [] };
  const service = decodeServiceName(fields, opened.labels);
  const family = decodeFamily(fields, opened.raw.addressType);
  if (service === undefined || family === undefined) {
    return { record: undefined, problems: fields.problems };
  }
  const ports = strings.records(decodePorts(fields, opened.raw.ports));
  const columns = decodeEndpoints(fields, opened.raw.endpoints, { family, nodeName, strings });
  const record: EndpointSlice = {
    key: opened.id.key,
    service: objectKey(opened.id.namespace, service),
    family,
    ports,
    length: columns.length,
    addresses: columns.addresses,
    conditions: columns.conditions,
    zoneHints: columns.zoneHints,
    places: columns.places,
    triggerTimeMs: decodeTriggerTime(fields, opened.metadata),
  };
  return { record, problems: fields.problems };
}

function decodeServiceName(fields: FieldReader, labels: RawObject): string | undefined {
  const field = `metadata.labels[${serviceNameLabel}]`;
  const service = fields.text(labels[serviceNameLabel], field);
  if (service !== undefined && service !== '') return service;
  return fields.refuse(field, 'is missing: it names the Service of the endpoints');
}

function decodeFamily(fields: FieldReader, value: unknown): Family | undefined {
  if (value !== undefined && value !== null && value !== '') {
    return fields.choice(value, 'addressType', families, 'IPv4');
  }
  return fields.refuse('addressType', 'is missing: give IPv4 or IPv6');
}

function decodeTriggerTime(fields: FieldReader, metadata: RawObject): number | undefined {
  const annotations = fields.object(metadata.annotations, 'metadata.annotations');
  const field = `metadata.annotations[${triggerTimeAnnotation}]`;
  return fields.time(annotations?.[triggerTimeAnnotation], field);
}

/** Ports without a name or number mean "any": this proxy, like upstream, does not serve those. */
function decodePorts(fields: FieldReader, value: unknown): SlicePort[] {
  const ports: SlicePort[] = [];
  const list = fields.list(value, 'ports');
  for (let i = 0; i < list.length; i += 1) {
    fields.within('ports', i);
    const raw = fields.objectItem(list[i]);
    if (raw === undefined) continue;
    const name = fields.text(raw.name, 'name');
    const port = fields.whole(raw.port, 'port', { min: 1, max: 65_535 });
    const protocol = fields.choice(raw.protocol, 'protocol', protocols, 'TCP');
    if (raw.name === undefined || raw.name === null) fields.refuse('name', noAnyPort);
    if (port === undefined) fields.refuse('port', noAnyPort);
    if (name === undefined || protocol === undefined) continue;
    if (port === undefined || port === 'invalid') continue;
    ports.push({ name, protocol, port });
  }
  fields.outside();
  return ports;
}

const noAnyPort = 'is missing: a port that stands for any is not served';

interface EndpointContext {
  readonly family: Family;
  readonly nodeName: string;
  readonly strings: Interner;
}

type Columns = Pick<EndpointSlice, 'length' | 'addresses' | 'conditions' | 'zoneHints' | 'places'>;

/** Decodes straight into the columns, without an object for each endpoint. */
function decodeEndpoints(fields: FieldReader, value: unknown, context: EndpointContext): Columns {
  const list = fields.list(value, 'endpoints');
  const stride = addressBytes[context.family];
  // From Node's pool, because they become strings soon.
  const addresses = Buffer.allocUnsafe(list.length * stride);
  const conditions = Buffer.allocUnsafe(list.length);
  let zoneHints: (readonly string[])[] | undefined;
  let places: Place[] | undefined;
  let length = 0;
  for (let i = 0; i < list.length; i += 1) {
    fields.within('endpoints', i);
    const raw = fields.objectItem(list[i]);
    if (raw === undefined) continue;
    const hasAddress = decodeEndpointAddress(
      fields,
      raw,
      context.family,
      addresses,
      length * stride,
    );
    const bits = decodeConditions(fields, raw);
    if (!hasAddress || bits === undefined) continue;
    const hints = fields.object(raw.hints, 'hints');
    conditions[length] = bits | placeBits(fields, raw, hints, context.nodeName);
    const zones = hints === undefined ? noHints : hintNames(fields, hints, 'forZones');
    if (zones.length > 0) {
      zoneHints ??= list.map(() => noHints);
      zoneHints[length] = context.strings.list(zones);
    }
    const place = readPlace(raw, context.strings);
    if (place !== nowhere) {
      places ??= list.map(() => nowhere);
      places[length] = place;
    }
    length += 1;
  }
  fields.outside();
  return {
    length,
    addresses: addresses.toString('latin1', 0, length * stride),
    conditions: conditions.toString('latin1', 0, length),
    zoneHints: length === list.length ? zoneHints : zoneHints?.slice(0, length),
    places: length === list.length ? places : places?.slice(0, length),
  };
}

const nowhere: Place = { node: '', zone: '' };

/** Nothing depends on it: what is no text says nothing. */
function readPlace({ nodeName, zone }: RawObject, strings: Interner): Place {
  const node = typeof nodeName === 'string' ? nodeName : '';
  const where = typeof zone === 'string' ? zone : '';
  return node === '' && where === '' ? nowhere : strings.place(node, where);
}

/** `Condition` bits that depend on this node. */
function placeBits(
  fields: FieldReader,
  raw: RawObject,
  hints: RawObject | undefined,
  nodeName: string,
): number {
  const local = fields.text(raw.nodeName, 'nodeName') === nodeName ? Condition.local : 0;
  if (hints === undefined) return local;
  const nodes = hintNames(fields, hints, 'forNodes');
  return (
    local |
    (nodes.length > 0 ? Condition.nodeHinted : 0) |
    (nodes.includes(nodeName) ? Condition.nodeHintedHere : 0)
  );
}

/**
 * Writes the address into `bytes` at `at`; false when there is none that can be used. Only the
 * first address is used: the meaning of more was never defined.
 */
function decodeEndpointAddress(
  fields: FieldReader,
  raw: RawObject,
  family: Family,
  bytes: Uint8Array,
  at: number,
): boolean {
  const list = fields.list(raw.addresses, 'addresses');
  if (list.length === 0) {
    fields.refuse('addresses', 'has no address');
    return false;
  }
  if (list.length > 1) fields.refuse('addresses', `has ${list.length}, of which the first is used`);
  const text = fields.textItem(list[0], 'addresses[0]');
  if (text === undefined) return false;
  if (family === 'IPv4') {
    const value = parseIPv4Number(text);
    if (value !== undefined && !isSpecialIPv4(value) && text.length === dottedLength(value)) {
      bytes[at] = value >>> 24;
      bytes[at + 1] = value >>> 16;
      bytes[at + 2] = value >>> 8;
      bytes[at + 3] = value;
      return true;
    }
  } else if (readIPv6(text, bytes, at) && isOrdinaryIPv6(bytes[at]!)) {
    return true;
  }
  return decodeUnusual(fields, text, family, bytes, at);
}

/** Writes an address of any form; false, and a problem, when there is none that can be used. */
function decodeUnusual(
  fields: FieldReader,
  text: string,
  family: Family,
  bytes: Uint8Array,
  at: number,
): boolean {
  const address = readAddress(fields, text, 'addresses[0]');
  if (address === undefined) return false;
  if (address.family !== family) {
    fields.refuse('addresses[0]', `${show(text)} is no ${family} address`);
    return false;
  }
  const special = specialUse(address);
  if (special !== undefined) {
    fields.refuse('addresses[0]', `${show(text)} is ${special}: not usable for an endpoint`);
    return false;
  }
  bytes.set(address.bytes, at);
  return true;
}

/** Whether `specialUse` would refuse the IPv4 address; needs no Address. */
function isSpecialIPv4(value: number): boolean {
  const first = value >>> 24;
  if (value === 0 || first === 127 || value === 0xffff_ffff) return true;
  return value >>> 16 === 0xa9fe || (first >= 224 && first <= 239);
}

/** The length of an IPv4 address as text without leading zeroes. */
function dottedLength(value: number): number {
  let length = 3;
  for (let shift = 0; shift < 32; shift += 8) {
    const octet = (value >>> shift) & 0xff;
    length += octet < 10 ? 1 : octet < 100 ? 2 : 3;
  }
  return length;
}

/** Whether the first byte is of 2000::/3 or fc00::/7, where no address is special or IPv4. */
function isOrdinaryIPv6(first: number): boolean {
  return (first & 0xe0) === 0x20 || (first & 0xfe) === 0xfc;
}

/** `Condition` bits ready, serving and terminating; undefined when one cannot be read. */
function decodeConditions(fields: FieldReader, raw: RawObject): number | undefined {
  const conditions = fields.object(raw.conditions, 'conditions');
  if (conditions === undefined) return Condition.ready | Condition.serving;
  const ready = fields.flag(conditions.ready, 'conditions.ready');
  const serving = fields.flag(conditions.serving, 'conditions.serving');
  const terminating = fields.flag(conditions.terminating, 'conditions.terminating');
  if (ready === 'invalid' || serving === 'invalid' || terminating === 'invalid') return undefined;
  return (
    ((ready ?? true) ? Condition.ready : 0) |
    ((serving ?? true) ? Condition.serving : 0) |
    (terminating === true ? Condition.terminating : 0)
  );
}

function hintNames(
  fields: FieldReader,
  hints: RawObject,
  field: 'forZones' | 'forNodes',
): string[] {
  const names: string[] = [];
  const path = `hints.${field}`;
  for (const element of fields.list(hints[field], path)) {
    const raw = fields.objectItem(element, path);
    const name = raw && fields.textItem(raw.name, `${path}.name`);
    if (name !== undefined) names.push(name);
  }
  return names;
}
