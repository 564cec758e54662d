import { isIP } from 'node:net';

export type Family = 'IPv4' | 'IPv6';

/** Bytes of an address of each family. */
export const addressBytes = { IPv4: 4, IPv6: 16 } as const satisfies Record<Family, number>;

const dot = 0x2e;
const zero = 0x30;
const nine = 0x39;

/** An IP address in network order: 4 bytes for IPv4, 16 for IPv6. */
export interface Address {
  readonly family: Family;
  readonly bytes: Uint8Array;
}

/** An address block; bits of `address` beyond `prefixLength` are zero. */
export interface CIDR {
  readonly address: Address;
  readonly prefixLength: number;
}

/**
 * Parses an address as Kubernetes prints and tolerates them: dotted IPv4 (leading zeroes in an
 * octet are decimal, as upstream normalises them, behaviour document 4.3), IPv6 with `::`, and
 * IPv4-mapped IPv6, which counts as IPv4. Zone ids are refused. Undefined when it is no address.
 */
export function parseAddress(text: string): Address | undefined {
  const v4 = parseIPv4(text);
  if (v4 !== undefined) return { family: 'IPv4', bytes: v4 };
  if (isIP(text) !== 6 || text.includes('%')) return undefined;
  const bytes = parseIPv6(text);
  if (isMappedIPv4(bytes)) return { family: 'IPv4', bytes: bytes.slice(12) };
  return { family: 'IPv6', bytes };
}

function parseIPv4(text: string): Uint8Array | undefined {
  const value = parseIPv4Number(text);
  if (value === undefined) return undefined;
  return Uint8Array.of(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

/**
 * A dotted IPv4 address as a number, first octet highest; undefined when it is none. By character
 * codes, and without an object for the result: a full list holds 240,000 addresses.
 */
export function parseIPv4Number(text: string): number | undefined {
  let value = 0;
  let octets = 0;
  let digits = 0;
  let octet = 0;
  for (let i = 0; i <= text.length; i += 1) {
    const code = i === text.length ? dot : text.charCodeAt(i);
    if (code === dot) {
      if (digits === 0 || octets === 4 || octet > 255) return undefined;
      value = (value << 8) | octet;
      octets += 1;
      digits = 0;
      octet = 0;
    } else if (code >= zero && code <= nine && digits < 3) {
      octet = octet * 10 + code - zero;
      digits += 1;
    } else {
      return undefined;
    }
  }
  return octets === 4 ? value >>> 0 : undefined;
}

/** `text` is known to be IPv6 (net.isIP). */
function parseIPv6(text: string): Uint8Array {
  const bytes = new Uint8Array(16);
  const [head = '', tail] = text.split('::');
  const before = groups(head);
  const after = tail === undefined ? [] : groups(tail);
  bytes.set(before, 0);
  bytes.set(after, 16 - after.length);
  return bytes;
}

function groups(text: string): number[] {
  if (text === '') return [];
  const bytes: number[] = [];
  for (const group of text.split(':')) {
    if (group.includes('.')) bytes.push(...group.split('.').map(Number));
    else bytes.push(Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff);
  }
  return bytes;
}

function isMappedIPv4(bytes: Uint8Array): boolean {
  return bytes.subarray(0, 10).every((b) => b === 0) && bytes[10] === 0xff && bytes[11] === 0xff;
}

/** Dotted IPv4, or IPv6 in the canonical form of RFC 5952. `bytes` holds 4 or 16 bytes. */
export function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.');
  const words: number[] = [];
  for (let i = 0; i < 16; i += 2) words.push((bytes[i]! << 8) | bytes[i + 1]!);
  const gap = longestZeroRun(words);
  const hex = (part: number[]): string => part.map((word) => word.toString(16)).join(':');
  if (gap.length < 2) return hex(words);
  return `${hex(words.slice(0, gap.start))}::${hex(words.slice(gap.start + gap.length))}`;
}

function longestZeroRun(words: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let start = 0;
  for (let i = 0; i <= words.length; i += 1) {
    if (i < words.length && words[i] === 0) continue;
    if (i - start > best.length) best = { start, length: i - start };
    start = i + 1;
  }
  return best;
}

/**
 * `10.0.0.0/8` style; leading zeroes are tolerated as in addresses. The prefix of an IPv4-mapped
 * block counts from the first of 128 bits, so `::ffff:10.0.0.0/104` is `10.0.0.0/8`, and one that
 * is wider than the mapped space is refused. Undefined when it is no CIDR.
 */
export function parseCIDR(text: string): CIDR | undefined {
  const slash = text.indexOf('/');
  if (slash < 0) return undefined;
  const address = parseAddress(text.slice(0, slash));
  const prefix = text.slice(slash + 1);
  if (address === undefined || !/^[0-9]{1,4}$/.test(prefix)) return undefined;
  const mapped = address.family === 'IPv4' && text.includes(':');
  const prefixLength = Number(prefix) - (mapped ? 96 : 0);
  if (prefixLength < 0 || prefixLength > address.bytes.length * 8) return undefined;
  return { address: maskAddress(address, prefixLength), prefixLength };
}

function maskAddress(address: Address, prefixLength: number): Address {
  const bytes = Uint8Array.from(address.bytes, (byte, i) => {
    const bits = Math.min(8, Math.max(0, prefixLength - i * 8));
    return byte & (0xff00 >> bits);
  });
  return { family: address.family, bytes };
}

export function formatCIDR(cidr: CIDR): string {
  return `${formatAddress(cidr.address.bytes)}/${cidr.prefixLength}`;
}

export function cidrContains(cidr: CIDR, address: Address): boolean {
  if (cidr.address.family !== address.family) return false;
  const masked = maskAddress(address, cidr.prefixLength);
  return masked.bytes.every((byte, i) => byte === cidr.address.bytes[i]);
}

/** The last address of `cidr`. */
export function cidrLast({ address, prefixLength }: CIDR): Uint8Array {
  return Uint8Array.from(address.bytes, (byte, i) => {
    const bits = Math.min(8, Math.max(0, prefixLength - i * 8));
    return byte | (0xff >> bits);
  });
}
