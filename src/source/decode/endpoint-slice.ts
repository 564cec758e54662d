import { type Family, families, parseIPv4Number } from '../../net/address.ts';
import { arrayMax } from '../../net/list.ts';
import { protocols } from '../../net/protocol.ts';
import { specialUse } from '../../net/special-address.ts';
import { packedPorts } from '../../state/port-list.ts';
import {
  type EndpointSlice,
  objectKey,
  type SlicePort,
  type UnusedSlice,
} from '../../state/types.ts';
import type { Interner } from '../interner.ts';
import { readAddress } from './addresses.ts';
import { annotationField, annotationsOf, decodeWeight } from './annotations.ts';
import {
  type Columns,
  ColumnWriter,
  conditionBits,
  type EndpointContext,
  noNames,
  podHash,
  ReadEndpoints,
} from './endpoint-columns.ts';
import { endsStep, entriesMax } from './entries.ts';
import {
  type Decoded,
  type FieldReader,
  objectOf,
  open,
  type RawObject,
  show,
} from './field-reader.ts';
import {
  headlessLabel,
  isNearServiceName,
  serviceNameLabel,
  triggerTimeAnnotation,
} from './names.ts';

/**
 * An EndpointSlice in columns (behaviour document 4.3), in steps. No record for slices of headless
 * Services and of host names. `nodeName` is this node's name.
 */
export function* endpointSliceInSteps(
  raw: unknown,
  strings: Interner,
  nodeName: string,
): Generator<undefined, Decoded<EndpointSlice>> {
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
  const ports = yield* decodePorts(fields, opened.raw.ports, strings);
  const context = { family, nodeName, strings };
  const { endpoints } = opened.raw;
  const columns =
    endpoints instanceof ReadEndpoints
      ? endpoints.columns
      : yield* decodeEndpoints(fields, endpoints, context);
  const annotations = fields.object(opened.metadata.annotations, 'metadata.annotations');
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
    ...(columns.pods !== undefined && { pods: columns.pods }),
    weight: decodeWeight(annotationsOf(fields, annotations, 'EndpointSlice')),
    triggerTimeMs: decodeTriggerTime(fields, annotations),
  };
  return { record, problems: fields.problems };
}

/** A slice that is not used, and the Service that it was probably meant for; undefined: none. */
export function decodeUnusedSlice(raw: unknown): UnusedSlice | undefined {
  const opened = open('EndpointSlice', raw, 'namespaced');
  if (opened.id === undefined || opened.labels[headlessLabel] !== undefined) return undefined;
  const { id, labels } = opened;
  const name = labels[serviceNameLabel];
  const isOf = (service: unknown, because: string): UnusedSlice | undefined => {
    if (typeof service !== 'string' || service === '') return undefined;
    return { key: id.key, service: objectKey(id.namespace, service), because };
  };
  if (name === undefined) {
    const near = Object.keys(labels).find((key) => {
      return isNearServiceName(key.length, (index) => key.charCodeAt(index));
    });
    if (near === undefined) return undefined;
    return isOf(labels[near], `its label is ${show(near)} instead of ${show(serviceNameLabel)}`);
  }
  if (opened.raw.addressType !== 'FQDN') return undefined;
  return isOf(name, 'its addressType is FQDN, and a proxy needs addresses');
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

function decodeTriggerTime(
  fields: FieldReader,
  annotations: RawObject | undefined,
): number | undefined {
  const field = annotationField(triggerTimeAnnotation);
  return fields.time(annotations?.[triggerTimeAnnotation], field);
}

/** Ports without a name or number mean "any": like kube-proxy, this proxy does not serve those. */
function* decodePorts(
  fields: FieldReader,
  value: unknown,
  strings: Interner,
): Generator<undefined, EndpointSlice['ports']> {
  const ports: SlicePort[] = [];
  const list = fields.list(value, 'ports', entriesMax.ports);
  for (let i = 0; i < list.length; i += 1) {
    if (endsStep(i)) yield;
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
  return ports.length > arrayMax ? yield* packedPorts(ports) : strings.records(ports);
}

const noAnyPort = 'is missing: a port without one means all ports, which is not served';

/** Decodes directly into the columns, without an object for each endpoint. */
function* decodeEndpoints(
  fields: FieldReader,
  value: unknown,
  context: EndpointContext,
): Generator<undefined, Columns> {
  const list = fields.list(value, 'endpoints', entriesMax.endpoints);
  const writer = new ColumnWriter(context, list.length);
  for (let i = 0; i < list.length; i += 1) {
    if (endsStep(i)) yield;
    fields.within('endpoints', i);
    const raw = fields.objectItem(list[i]);
    if (raw === undefined) continue;
    const hasAddress = decodeEndpointAddress(fields, raw, context.family, writer);
    const bits = decodeConditions(fields, raw);
    if (!hasAddress || bits === undefined) continue;
    const hints = fields.object(raw.hints, 'hints');
    const { name: pod } = objectOf(raw.targetRef);
    writer.add({
      conditions: bits,
      node: fields.text(raw.nodeName, 'nodeName') ?? '',
      // Nothing depends on it, so a value that is not text is ignored.
      zone: typeof raw.zone === 'string' ? raw.zone : '',
      hintedNodes: hintNames(fields, hints, 'forNodes'),
      hintedZones: hintNames(fields, hints, 'forZones'),
      pod: typeof pod === 'string' ? podHash(Buffer.from(pod)) : 0,
    });
  }
  fields.outside();
  return writer.columns();
}

/**
 * Writes the address; false if there is no usable one. Only the first address is used: the API does
 * not define the meaning of others.
 */
function decodeEndpointAddress(
  fields: FieldReader,
  raw: RawObject,
  family: Family,
  writer: ColumnWriter,
): boolean {
  const list = fields.list(raw.addresses, 'addresses', entriesMax.others);
  if (list.length === 0) {
    fields.refuse('addresses', 'has no address');
    return false;
  }
  if (list.length > 1) fields.refuse('addresses', `has ${list.length}, of which the first is used`);
  const text = fields.textItem(list[0], 'addresses[0]');
  if (text === undefined) return false;
  if (family === 'IPv4') {
    const value = parseIPv4Number(text);
    if (value !== undefined && writer.writeOrdinaryIPv4(value, text.length)) return true;
  } else if (writer.writeOrdinaryIPv6(text)) {
    return true;
  }
  return decodeUnusual(fields, text, family, writer);
}

/** Writes an address of any form; false, and a problem, if there is no usable one. */
function decodeUnusual(
  fields: FieldReader,
  text: string,
  family: Family,
  writer: ColumnWriter,
): boolean {
  const address = readAddress(fields, text, 'addresses[0]');
  if (address === undefined) return false;
  if (address.family !== family) {
    fields.refuse('addresses[0]', `${show(text)} is not an ${family} address`);
    return false;
  }
  const special = specialUse(address);
  if (special !== undefined) {
    fields.refuse('addresses[0]', `${show(text)} is ${special}: not usable for an endpoint`);
    return false;
  }
  writer.write(address.bytes);
  return true;
}

/** `Condition` bits ready, serving and terminating; undefined when one cannot be read. */
function decodeConditions(fields: FieldReader, raw: RawObject): number | undefined {
  const conditions = fields.object(raw.conditions, 'conditions');
  if (conditions === undefined) return conditionBits(undefined, undefined, undefined);
  const ready = fields.flag(conditions.ready, 'conditions.ready');
  const serving = fields.flag(conditions.serving, 'conditions.serving');
  const terminating = fields.flag(conditions.terminating, 'conditions.terminating');
  if (ready === 'invalid' || serving === 'invalid' || terminating === 'invalid') return undefined;
  return conditionBits(ready, serving, terminating);
}

function hintNames(
  fields: FieldReader,
  hints: RawObject | undefined,
  field: 'forZones' | 'forNodes',
): readonly string[] {
  if (hints === undefined) return noNames;
  const names: string[] = [];
  const path = `hints.${field}`;
  for (const element of fields.list(hints[field], path, entriesMax.others)) {
    const raw = fields.objectItem(element, path);
    const name = raw && fields.textItem(raw.name, `${path}.name`);
    if (name !== undefined) names.push(name);
  }
  return names;
}
