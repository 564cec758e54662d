export const families = ['IPv4', 'IPv6'] as const;
export type Family = (typeof families)[number];

/** Bytes of an address of each family. */
export const addressBytes = { IPv4: 4, IPv6: 16 } as const satisfies Record<Family, number>;

const dot = 0x2e;
const zero = 0x30;
const nine = 0x39;
const colon = 0x3a;

/** 16-bit groups of an IPv6 address. */
const groupsOfIPv6 = 8;

/**
 * A value that only equal addresses share, for use in a Set or as the key of a Map: for IPv4 the
 * number, first octet highest; for IPv6 the bytes, a character for each (Latin-1).
 */
export type AddressKey = number | string;

/**
 * An immutable IP address. It holds no typed array, which takes 200 bytes before its first element:
 * there are tens of thousands of ClusterIPs.
 */
export class Address {
  readonly key: AddressKey;

  private constructor(key: AddressKey) {
    this.key = key;
  }

  /** The address of this number, first octet highest. */
  static ofIPv4(value: number): Address {
    return new Address(value);
  }

  /** The address in network order: 4 bytes for IPv4, 16 for IPv6. They are copied. */
  static from(bytes: Uint8Array): Address {
    return new Address(
      bytes.length === addressBytes.IPv4
        ? numberAt(bytes, 0)
        : Buffer.from(bytes).toString('latin1'),
    );
  }

  get family(): Family {
    return typeof this.key === 'number' ? 'IPv4' : 'IPv6';
  }

  /** A copy in network order: 4 bytes for IPv4, 16 for IPv6. */
  get bytes(): Uint8Array {
    const bytes = new Uint8Array(addressBytes[this.family]);
    this.copy(bytes, 0);
    return bytes;
  }

  /** The address in network order, a character for each byte (Latin-1). */
  get latin1(): string {
    const { key } = this;
    if (typeof key === 'string') return key;
    return String.fromCharCode(key >>> 24, (key >>> 16) & 0xff, (key >>> 8) & 0xff, key & 0xff);
  }

  /** Copies it in network order to byte `at` of `to`. */
  copy(to: Uint8Array, at: number): void {
    const { key } = this;
    if (typeof key === 'number') {
      for (let i = 0; i < addressBytes.IPv4; i += 1) to[at + i] = key >>> (24 - 8 * i);
    } else {
      for (let i = 0; i < addressBytes.IPv6; i += 1) to[at + i] = key.charCodeAt(i);
    }
  }
}

/** The number of four bytes, the first one highest. */
function numberAt(bytes: Uint8Array, at: number): number {
  const [a, b, c, d] = [bytes[at]!, bytes[at + 1]!, bytes[at + 2]!, bytes[at + 3]!];
  return ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
}

/** An address block; bits of `address` beyond `prefixLength` are zero. */
export interface CIDR {
  readonly address: Address;
  readonly prefixLength: number;
}

/**
 * Parses an address as Kubernetes prints and tolerates them: dotted IPv4 (leading zeroes in an
 * octet are decimal, as upstream normalises them, behaviour document 4.3), IPv6 with `::`, and
 * IPv4-mapped IPv6, which counts as IPv4. Zone ids are refused. Undefined if it is not an address.
 */
export function parseAddress(text: string): Address | undefined {
  const v4 = parseIPv4Number(text);
  if (v4 !== undefined) return Address.ofIPv4(v4);
  const bytes = new Uint8Array(addressBytes.IPv6);
  if (!readIPv6(text, bytes, 0)) return undefined;
  return Address.from(isMappedIPv4(bytes) ? bytes.subarray(12) : bytes);
}

/**
 * Parses a dotted IPv4 address into a number, first octet highest. Reads character codes and
 * allocates no object, because a full list holds 240,000 addresses.
 *
 * @returns undefined if the text is not an IPv4 address.
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

/**
 * Parses ASCII bytes like `parseIPv4Number`, but accepts no leading zeroes. It serves lists that
 * never become text.
 *
 * @returns -1 if the bytes are not an IPv4 address.
 */
export function readIPv4(bytes: Uint8Array, from: number, to: number): number {
  let value = 0;
  let dots = 0;
  let octet = -1;
  for (let i = from; i < to; i += 1) {
    const byte = bytes[i]!;
    if (byte === dot) {
      if (octet < 0 || dots === 3) return -1;
      value = (value << 8) | octet;
      dots += 1;
      octet = -1;
    } else if (byte < zero || byte > nine || octet === 0) {
      return -1;
    } else {
      octet = (octet < 0 ? 0 : octet * 10) + byte - zero;
      if (octet > 255) return -1;
    }
  }
  return dots === 3 && octet >= 0 ? ((value << 8) | octet) >>> 0 : -1;
}

/**
 * Writes an IPv6 address, its last four bytes dotted or not, into `bytes` from `at`. It reads
 * character codes, as `parseIPv4Number` does, and for the same reason.
 *
 * @returns false if the text is not an IPv6 address; the bytes written are then undefined.
 */
export function readIPv6(text: string, bytes: Uint8Array, at: number): boolean {
  let groups = 0;
  let gap = -1;
  let i = 0;
  if (text.startsWith('::')) {
    gap = 0;
    i = 2;
  }
  while (i < text.length) {
    const start = i;
    let group = 0;
    for (; i < text.length; i += 1) {
      const digit = hexDigit(text.charCodeAt(i));
      if (digit < 0) break;
      group = group * 16 + digit;
    }
    if (text.charCodeAt(i) === dot) {
      if (groups > groupsOfIPv6 - 2 || !readDotted(text, start, bytes, at + 2 * groups))
        return false;
      groups += 2;
      break;
    }
    if (i === start || i - start > 4 || groups === groupsOfIPv6) return false;
    bytes[at + 2 * groups] = group >> 8;
    bytes[at + 2 * groups + 1] = group;
    groups += 1;
    if (i === text.length) break;
    if (text.charCodeAt(i) !== colon || i + 1 === text.length) return false;
    i += 1;
    if (text.charCodeAt(i) !== colon) continue;
    if (gap >= 0) return false;
    gap = groups;
    i += 1;
  }
  if (gap < 0) return groups === groupsOfIPv6;
  if (groups === groupsOfIPv6) return false;
  const moved = 2 * (groups - gap);
  const end = at + addressBytes.IPv6;
  bytes.copyWithin(end - moved, at + 2 * gap, at + 2 * groups);
  bytes.fill(0, at + 2 * gap, end - moved);
  return true;
}

/** Returns the value of a hexadecimal digit, or -1 for any other character. */
function hexDigit(code: number): number {
  if (code >= zero && code <= nine) return code - zero;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Reads the end of an IPv6 address in IPv4's form, in which leading zeroes are not tolerated. */
function readDotted(text: string, from: number, bytes: Uint8Array, at: number): boolean {
  const dotted = text.slice(from);
  const value = /(^|\.)0[0-9]/.test(dotted) ? undefined : parseIPv4Number(dotted);
  if (value === undefined) return false;
  for (let i = 0; i < 4; i += 1) bytes[at + i] = value >>> (24 - 8 * i);
  return true;
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

/** `10.0.0.1:80`, `[fd00::1]:80` */
export function formatEndpoint(bytes: Uint8Array, port: number): string {
  return joinHostPort(formatAddress(bytes), port);
}

/** `host:port`, with brackets around a host that has colons. */
export function joinHostPort(host: string, port: number | string): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/**
 * `10.0.0.0/8` style; leading zeroes are tolerated as in addresses. The prefix of an IPv4-mapped
 * block counts from the first of 128 bits, so `::ffff:10.0.0.0/104` is `10.0.0.0/8`, and one that
 * is wider than the mapped space is refused. Undefined if it is not a CIDR.
 */
export function parseCIDR(text: string): CIDR | undefined {
  const slash = text.indexOf('/');
  if (slash < 0) return undefined;
  const address = parseAddress(text.slice(0, slash));
  const prefix = text.slice(slash + 1);
  if (address === undefined || !/^[0-9]{1,4}$/.test(prefix)) return undefined;
  const mapped = address.family === 'IPv4' && text.includes(':');
  const prefixLength = Number(prefix) - (mapped ? 96 : 0);
  if (prefixLength < 0 || prefixLength > addressBits(address)) return undefined;
  return { address: maskAddress(address, prefixLength), prefixLength };
}

function maskAddress(address: Address, prefixLength: number): Address {
  const bytes = Uint8Array.from(address.bytes, (byte, i) => {
    const bits = Math.min(8, Math.max(0, prefixLength - i * 8));
    return byte & (0xff00 >> bits);
  });
  return Address.from(bytes);
}

/** Bits of an address of this family: the prefix length of a block that holds it alone. */
export function addressBits({ family }: Address): number {
  return addressBytes[family] * 8;
}

export function formatCIDR(cidr: CIDR): string {
  return `${formatAddress(cidr.address.bytes)}/${cidr.prefixLength}`;
}

/** A value that only equal blocks of one family share. */
export function cidrKey({ address: { key }, prefixLength }: CIDR): number | string {
  return typeof key === 'number' ? key * 64 + prefixLength : `${prefixLength}/${key}`;
}

export function cidrContains({ address: block, prefixLength }: CIDR, address: Address): boolean {
  const { key: first } = block;
  const { key } = address;
  if (typeof first === 'number' && typeof key === 'number') {
    // A shift by 32 bits is one by none.
    return prefixLength === 0 || (first ^ key) >>> (32 - prefixLength) === 0;
  }
  if (typeof first === 'number' || typeof key === 'number') return false;
  const whole = prefixLength >> 3;
  if (first.slice(0, whole) !== key.slice(0, whole)) return false;
  const rest = prefixLength & 7;
  return rest === 0 || (first.charCodeAt(whole) ^ key.charCodeAt(whole)) >> (8 - rest) === 0;
}

/** The last address of `cidr`. */
export function cidrLast({ address, prefixLength }: CIDR): Uint8Array {
  return Uint8Array.from(address.bytes, (byte, i) => {
    const bits = Math.min(8, Math.max(0, prefixLength - i * 8));
    return byte | (0xff >> bits);
  });
}

export function isLoopback({ family, bytes }: Address): boolean {
  if (family === 'IPv4') return bytes[0] === 127;
  return bytes.every((byte, i) => byte === (i === 15 ? 1 : 0));
}

/** The mask of a prefix, as `bytes` bytes. */
export function prefixMask(bytes: number, prefixLength: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => {
    const bits = Math.min(8, Math.max(0, prefixLength - i * 8));
    return 0xff & (0xff00 >> bits);
  });
}

/** The prefix length that a mask stands for. */
export function maskBits(mask: Uint8Array): number {
  return mask.reduce((bits, byte) => bits + byte.toString(2).replaceAll('0', '').length, 0);
}
