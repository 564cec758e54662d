/** What rules load and compare, in nft's words. */
import { formatAddress, maskBits } from '../../net/address.ts';
import { IP_CT_DIR, NFT_CT, NFT_META, NFT_PAYLOAD, protocolOf } from './constants.ts';

/** The type of a value, for the types that nft prints in a special form. */
export type Kind =
  | 'ip address'
  | 'ip6 address'
  | 'address type'
  | 'interface'
  | 'port'
  | 'protocol'
  | 'state'
  | 'status'
  | 'direction'
  | 'number'
  | 'count'
  | 'presence'
  | 'bits'
  | 'bytes';

export interface Selector {
  readonly words: string;
  readonly kind: Kind;
}

const networkFields = {
  ip: { 12: 'saddr', 16: 'daddr' },
  ip6: { 8: 'saddr', 24: 'daddr' },
} as const satisfies Record<string, Readonly<Record<number, string>>>;
const addressBytes = { ip: 4, ip6: 16 } as const;
const baseNames = ['ll', 'nh', 'th'] as const;

export function payloadSelector(
  ip: 'ip' | 'ip6',
  {
    base,
    length,
    offset,
  }: { readonly base: number; readonly length: number; readonly offset: number },
): Selector {
  if (base === NFT_PAYLOAD.TRANSPORT_HEADER && length === 2 && offset <= 2) {
    return { words: offset === 0 ? 'th sport' : 'th dport', kind: 'port' };
  }
  if (base === NFT_PAYLOAD.TRANSPORT_HEADER && length === 1 && offset === 13) {
    return { words: 'tcp flags', kind: 'bits' };
  }
  const fields: Readonly<Record<number, string>> = networkFields[ip];
  const field = base === NFT_PAYLOAD.NETWORK_HEADER ? fields[offset] : undefined;
  if (field !== undefined && length <= addressBytes[ip]) {
    return { words: `${ip} ${field}`, kind: `${ip} address` };
  }
  return { words: `@${baseNames[base] ?? base},${8 * offset},${8 * length}`, kind: 'bytes' };
}

const metas: Readonly<Record<number, Selector>> = {
  0: { words: 'meta length', kind: 'number' },
  [NFT_META.PROTOCOL]: { words: 'meta protocol', kind: 'bytes' },
  2: { words: 'meta priority', kind: 'number' },
  [NFT_META.MARK]: { words: 'meta mark', kind: 'bits' },
  4: { words: 'meta iif', kind: 'number' },
  5: { words: 'meta oif', kind: 'number' },
  [NFT_META.IIFNAME]: { words: 'meta iifname', kind: 'interface' },
  [NFT_META.OIFNAME]: { words: 'meta oifname', kind: 'interface' },
  10: { words: 'meta skuid', kind: 'number' },
  11: { words: 'meta skgid', kind: 'number' },
  [NFT_META.NFTRACE]: { words: 'meta nftrace', kind: 'number' },
  [NFT_META.NFPROTO]: { words: 'meta nfproto', kind: 'number' },
  [NFT_META.L4PROTO]: { words: 'meta l4proto', kind: 'protocol' },
};

/** `key`: NFT_META_* */
export function metaSelector(key: number): Selector {
  return metas[key] ?? { words: `meta [ key ${key} ]`, kind: 'bytes' };
}

/** `key`: NFT_CT_* */
export function ctSelector(
  ip: 'ip' | 'ip6',
  { direction, key }: { readonly direction: number; readonly key: number },
): Selector {
  const ct =
    direction === IP_CT_DIR.NONE
      ? 'ct'
      : direction === IP_CT_DIR.ORIGINAL
        ? 'ct original'
        : 'ct reply';
  switch (key) {
    case NFT_CT.STATE:
      return { words: `${ct} state`, kind: 'state' };
    case NFT_CT.DIRECTION:
      return { words: `${ct} direction`, kind: 'direction' };
    case NFT_CT.STATUS:
      return { words: `${ct} status`, kind: 'status' };
    case NFT_CT.PROTOCOL:
      return { words: `${ct} protocol`, kind: 'protocol' };
    case NFT_CT.PROTO_SRC:
      return { words: `${ct} proto-src`, kind: 'port' };
    case NFT_CT.PROTO_DST:
      return { words: `${ct} proto-dst`, kind: 'port' };
    case NFT_CT.PACKETS:
      return { words: `${ct} packets`, kind: 'count' };
    case NFT_CT.SRC_IP:
    case NFT_CT.SRC_IP6:
      return { words: `${ct} ${ip} saddr`, kind: `${ip} address` };
    case NFT_CT.DST_IP:
    case NFT_CT.DST_IP6:
      return { words: `${ct} ${ip} daddr`, kind: `${ip} address` };
    default:
      return { words: `${ct} [ key ${key} ]`, kind: 'bytes' };
  }
}

const operators = ['', '!= ', '< ', '<= ', '> ', '>= '] as const;

/** `operation`: NFT_CMP_*. With a blank behind it, or empty. */
export function operatorWord(operation: number): string {
  return operators[operation] ?? `[ operation ${operation} ] `;
}

/** Names of bits, from the lowest on (linux/netfilter/nf_conntrack_common.h). */
const bitNames = {
  state: ['invalid', 'established', 'related', 'new', '', '', 'untracked'],
  status: ['expected', 'seen-reply', 'assured', 'confirmed', 'snat', 'dnat'],
} as const;

/** RTN_* (linux/rtnetlink.h) */
const addressTypes = [
  'unspec',
  'unicast',
  'local',
  'broadcast',
  'anycast',
  'multicast',
  'blackhole',
];

/** Fewer bytes than an address has are a prefix. */
export function formatValue(kind: Kind, data: Uint8Array, mask?: Uint8Array): string {
  switch (kind) {
    case 'ip address':
    case 'ip6 address':
      return formatBlock(kind === 'ip address' ? 4 : 16, data, mask);
    case 'address type':
      return addressTypes[hostWord(data)] ?? String(hostWord(data));
    case 'interface':
      return `"${interfaceName(data)}"`;
    case 'port':
      return String((data[0]! << 8) | data[1]!);
    case 'protocol':
      return protocolName(data[0]!);
    case 'state':
    case 'status': {
      const bits = hostWord(data);
      const names = bitNames[kind].filter((name, i) => name !== '' && (bits & (1 << i)) !== 0);
      return names.join(',');
    }
    case 'direction':
      return data[0] === IP_CT_DIR.REPLY ? 'reply' : 'original';
    case 'number':
      return String(hostWord(data));
    case 'count':
      return String(Buffer.from(data).readBigUInt64BE());
    case 'presence':
      return data[0] === 0 ? 'missing' : 'exists';
    case 'bits':
      return `0x${hostWord(data)
        .toString(16)
        .padStart(2 * data.length, '0')}`;
    case 'bytes':
      return `0x${Buffer.from(data).toString('hex')}`;
  }
}

/** `tcp`, or a number. */
export function protocolName(number: number): string {
  return protocolOf(number)?.toLowerCase() ?? String(number);
}

/** Up to 4 bytes in host order. */
function hostWord(bytes: Uint8Array): number {
  const word = new Uint8Array(4);
  word.set(bytes.subarray(0, 4));
  return new DataView(word.buffer).getUint32(0, true);
}

function formatBlock(width: number, data: Uint8Array, mask: Uint8Array | undefined): string {
  const full = new Uint8Array(width);
  full.set(data.subarray(0, width));
  const bits = mask === undefined ? data.length * 8 : maskBits(mask);
  const address = formatAddress(full);
  return bits === width * 8 ? address : `${address}/${bits}`;
}

function interfaceName(data: Uint8Array): string {
  const name = new TextDecoder().decode(data);
  const end = name.indexOf('\0');
  return end < 0 ? `${name}*` : name.slice(0, end);
}
