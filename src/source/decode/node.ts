import type { Address } from '../../net/address.ts';
import type { Node } from '../../state/types.ts';
import { readAddress, readCIDR } from './addresses.ts';
import { entriesMax } from './entries.ts';
import { type Decoded, type FieldReader, open, show } from './field-reader.ts';
import { zoneLabel } from './names.ts';

/** Decodes the fields of the Node that the proxy uses (behaviour document 3.1, 4.1, 10.1). */
export function decodeNode(raw: unknown): Decoded<Node> {
  const opened = open('Node', raw, 'cluster');
  const { fields } = opened;
  if (opened.id === undefined) return { record: undefined, problems: fields.problems };
  const spec = fields.object(opened.raw.spec, 'spec') ?? {};
  const status = fields.object(opened.raw.status, 'status') ?? {};
  const record: Node = {
    name: opened.id.name,
    addresses: decodeAddresses(fields, status.addresses),
    podCIDRs: decodePodCIDRs(fields, spec.podCIDRs, spec.podCIDR),
    zone: fields.text(opened.labels[zoneLabel], `metadata.labels[${zoneLabel}]`) ?? '',
    deleted: (opened.metadata.deletionTimestamp ?? undefined) !== undefined,
    taintKeys: decodeTaintKeys(fields, spec.taints),
    isShuttingDown: decodeShutdown(fields, status.conditions),
  };
  return { record, problems: fields.problems };
}

/** InternalIPs, then ExternalIPs. Host names and DNS names are not used. */
function decodeAddresses(fields: FieldReader, value: unknown): Address[] {
  const internal: Address[] = [];
  const external: Address[] = [];
  for (const [i, element] of fields
    .list(value, 'status.addresses', entriesMax.addresses)
    .entries()) {
    fields.within('status.addresses', i);
    const raw = fields.objectItem(element);
    if (raw === undefined || isName(raw.type)) continue;
    const type = fields.choice(raw.type, 'type', ['InternalIP', 'ExternalIP'], 'InternalIP');
    if (type === undefined) continue;
    const address = readAddress(fields, raw.address, 'address');
    if (address !== undefined) (type === 'InternalIP' ? internal : external).push(address);
  }
  fields.outside();
  return [...internal, ...external];
}

function isName(type: unknown): boolean {
  return type === 'Hostname' || type === 'InternalDNS' || type === 'ExternalDNS';
}

/** The valid pod CIDRs, as text. */
function decodePodCIDRs(fields: FieldReader, list: unknown, single: unknown): string[] {
  const listed = fields.list(list, 'spec.podCIDRs', entriesMax.others);
  const alone = (single ?? '') !== '';
  if (listed.length === 0) {
    return alone && readCIDR(fields, single, 'spec.podCIDR') !== undefined ? [String(single)] : [];
  }
  if (alone && single !== listed[0]) {
    fields.refuse('spec.podCIDR', `${show(single)} is not podCIDRs[0], ${show(listed[0])}`);
  }
  return listed.filter(
    (text, i): text is string => readCIDR(fields, text, `spec.podCIDRs[${i}]`) !== undefined,
  );
}

/** In the message of condition Ready, alone or among others (nodeshutdown of the kubelet). */
const shutdownMessage = 'node is shutting down';

function decodeShutdown(fields: FieldReader, value: unknown): boolean {
  const list = fields.list(value, 'status.conditions', entriesMax.others);
  const ready = list.map((one) => fields.objectItem(one)).find((one) => one?.type === 'Ready');
  return ready?.status === 'False' && String(ready.message).includes(shutdownMessage);
}

function decodeTaintKeys(fields: FieldReader, value: unknown): string[] {
  const keys: string[] = [];
  for (const [i, element] of fields.list(value, 'spec.taints', entriesMax.others).entries()) {
    fields.within('spec.taints', i);
    const raw = fields.objectItem(element);
    const key = raw && fields.textItem(raw.key, 'key');
    if (key !== undefined) keys.push(key);
  }
  fields.outside();
  return keys;
}
