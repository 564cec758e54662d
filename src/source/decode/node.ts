import type { Address } from '../../net/address.ts';
import type { Node } from '../../state/types.ts';
import { readAddress, readCIDR } from './addresses.ts';
import { type Decoded, type Door, open, show } from './door.ts';

const zoneLabel = 'topology.kubernetes.io/zone';

/** What the proxy wants to know of its node (behaviour document 3.1, 4.1, 10.1). */
export function decodeNode(raw: unknown): Decoded<Node> {
  const opened = open('Node', raw, 'cluster');
  const { door } = opened;
  if (opened.id === undefined) return { record: undefined, problems: door.problems };
  const spec = door.object(opened.raw.spec, 'spec') ?? {};
  const status = door.object(opened.raw.status, 'status') ?? {};
  const record: Node = {
    name: opened.id.name,
    addresses: decodeAddresses(door, status.addresses),
    podCIDRs: decodePodCIDRs(door, spec.podCIDRs, spec.podCIDR),
    zone: door.text(opened.labels[zoneLabel], `metadata.labels[${zoneLabel}]`) ?? '',
    deleted: (opened.metadata.deletionTimestamp ?? undefined) !== undefined,
    taintKeys: decodeTaintKeys(door, spec.taints),
  };
  return { record, problems: door.problems };
}

/** InternalIPs, then ExternalIPs; host names and DNS names are of no use here. */
function decodeAddresses(door: Door, value: unknown): Address[] {
  const internal: Address[] = [];
  const external: Address[] = [];
  for (const [i, element] of door.list(value, 'status.addresses').entries()) {
    door.within('status.addresses', i);
    const raw = door.objectItem(element);
    if (raw === undefined || isName(raw.type)) continue;
    const type = door.choice(raw.type, 'type', ['InternalIP', 'ExternalIP'], 'InternalIP');
    if (type === undefined) continue;
    const address = readAddress(door, raw.address, 'address');
    if (address !== undefined) (type === 'InternalIP' ? internal : external).push(address);
  }
  door.outside();
  return [...internal, ...external];
}

function isName(type: unknown): boolean {
  return type === 'Hostname' || type === 'InternalDNS' || type === 'ExternalDNS';
}

/** As text; those that can be read. */
function decodePodCIDRs(door: Door, list: unknown, single: unknown): string[] {
  const listed = door.list(list, 'spec.podCIDRs');
  const alone = (single ?? '') !== '';
  if (listed.length === 0) {
    return alone && readCIDR(door, single, 'spec.podCIDR') !== undefined ? [String(single)] : [];
  }
  if (alone && single !== listed[0]) {
    door.refuse('spec.podCIDR', `${show(single)} is not podCIDRs[0], ${show(listed[0])}`);
  }
  return listed.filter(
    (text, i): text is string => readCIDR(door, text, `spec.podCIDRs[${i}]`) !== undefined,
  );
}

function decodeTaintKeys(door: Door, value: unknown): string[] {
  const keys: string[] = [];
  for (const [i, element] of door.list(value, 'spec.taints').entries()) {
    door.within('spec.taints', i);
    const raw = door.objectItem(element);
    const key = raw && door.textItem(raw.key, 'key');
    if (key !== undefined) keys.push(key);
  }
  door.outside();
  return keys;
}
