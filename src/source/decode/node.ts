import { type Address, parseAddress } from '../../state/address.ts';
import type { Node } from '../../state/types.ts';
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
    const raw = door.object(element, '');
    if (raw?.type !== 'InternalIP' && raw?.type !== 'ExternalIP') continue;
    const text = door.text(raw.address, 'address') ?? '';
    const address = parseAddress(text);
    if (address === undefined) door.refuse('address', `is no IP address: ${show(text)}`);
    else (raw.type === 'InternalIP' ? internal : external).push(address);
  }
  door.outside();
  return [...internal, ...external];
}

function decodePodCIDRs(door: Door, list: unknown, single: unknown): string[] {
  const cidrs: string[] = [];
  for (const [i, element] of door.list(list, 'spec.podCIDRs').entries()) {
    const text = door.text(element, `spec.podCIDRs[${i}]`);
    if (text !== undefined && text !== '') cidrs.push(text);
  }
  if (cidrs.length > 0) return cidrs;
  const text = door.text(single, 'spec.podCIDR') ?? '';
  return text === '' ? [] : [text];
}

function decodeTaintKeys(door: Door, value: unknown): string[] {
  const keys: string[] = [];
  for (const [i, element] of door.list(value, 'spec.taints').entries()) {
    door.within('spec.taints', i);
    const key = door.text(door.object(element, '')?.key, 'key');
    if (key !== undefined) keys.push(key);
  }
  door.outside();
  return keys;
}
