import { addressBytes, type Family, formatEndpoint } from './address.ts';

/** Bytes of one packed endpoint of each family: the address, the port, two zero bytes. */
export const endpointBytes = { IPv4: 8, IPv6: 20 } as const satisfies Record<Family, number>;

/**
 * A value that only equal endpoints of one family share, for use in a Set or as the key of a Map:
 * 48 bits as a number for IPv4, the bytes as a Latin-1 string for IPv6.
 */
export type EndpointKey = number | string;

/** To compare texts takes as long as to compare this number of endpoints. */
const comparedSingly = 8;

/** The key of the address and port (network order) that start at byte `at` of `bytes`. */
export function endpointKey(family: Family, bytes: Uint8Array, at: number): EndpointKey {
  const b = bytes;
  if (family === 'IPv4') {
    const low = ((b[at + 2]! << 24) | (b[at + 3]! << 16) | (b[at + 4]! << 8) | b[at + 5]!) >>> 0;
    return ((b[at]! << 8) | b[at + 1]!) * 0x1_0000_0000 + low;
  }
  return Buffer.from(b.buffer, b.byteOffset + at, endpointBytes.IPv6 - 2).toString('latin1');
}

/** The first `length` bytes as text, one character for each. */
function latin1Of(bytes: Uint8Array, length: number): string {
  if (length !== endpointBytes.IPv4) {
    // To make a Buffer takes longer than to make the text of a few endpoints.
    const buffer = bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset);
    return buffer.toString('latin1', 0, length);
  }
  // Most Services have one endpoint, and a call of Node costs more than it.
  const b = bytes;
  // biome-ignore format: eight lines would say no more
  return String.fromCharCode(b[0]!, b[1]!, b[2]!, b[3]!, b[4]!, b[5]!, b[6]!, b[7]!);
}

/**
 * An immutable list of endpoints (address and port), packed: for each the address in network
 * order, then the port in network order, then two zero bytes. That is the form of nf_tables'
 * `ip daddr . th dport` data, so that a mode copies instead of converting, and 240,000 endpoints
 * take 2 MB instead of 40. The bytes are text, one character for each (Latin-1): a typed array
 * takes 200 bytes before its first element, and most lists are short.
 */
export class EndpointList {
  static readonly empty = {
    IPv4: new EndpointList('IPv4', ''),
    IPv6: new EndpointList('IPv6', ''),
  } as const satisfies Record<Family, EndpointList>;

  readonly family: Family;
  /** `length * endpointBytes[family]` bytes, a character for each. */
  readonly latin1: string;

  private constructor(family: Family, latin1: string) {
    this.family = family;
    this.latin1 = latin1;
  }

  /** The list whose packed endpoints are the first `length` bytes. They are copied. */
  static from(family: Family, bytes: Uint8Array, length: number = bytes.length): EndpointList {
    return new EndpointList(family, latin1Of(bytes, length));
  }

  /** The list of these runs, one after the other. See `run`. */
  static ofRuns(family: Family, runs: readonly string[]): EndpointList {
    const some = runs.filter((run) => run !== '');
    if (some.length > 1) return new EndpointList(family, some.join(''));
    // Copied: a text that is a part of another one keeps that in memory.
    return EndpointList.from(family, Buffer.from(some[0] ?? '', 'latin1'));
  }

  static of(
    family: Family,
    endpoints: readonly { address: Uint8Array; port: number }[],
  ): EndpointList {
    const stride = endpointBytes[family];
    const bytes = new Uint8Array(endpoints.length * stride);
    endpoints.forEach(({ address, port }, i) => {
      bytes.set(address, i * stride);
      bytes[i * stride + addressBytes[family]] = port >> 8;
      bytes[i * stride + addressBytes[family] + 1] = port & 0xff;
    });
    return EndpointList.from(family, bytes);
  }

  get length(): number {
    return this.latin1.length / endpointBytes[this.family];
  }

  /** A copy of all packed endpoints. */
  bytes(): Buffer {
    return Buffer.from(this.latin1, 'latin1');
  }

  /** A copy of the packed endpoint at `index`. */
  packed(index: number): Uint8Array {
    const stride = endpointBytes[this.family];
    return this.#copy(index * stride, stride);
  }

  /** Network order; a copy. */
  address(index: number): Uint8Array {
    return this.#copy(index * endpointBytes[this.family], addressBytes[this.family]);
  }

  #copy(from: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length);
    for (let i = 0; i < length; i += 1) bytes[i] = this.latin1.charCodeAt(from + i);
    return bytes;
  }

  /** Host order. */
  port(index: number): number {
    const at = index * endpointBytes[this.family] + addressBytes[this.family];
    return (this.latin1.charCodeAt(at) << 8) | this.latin1.charCodeAt(at + 1);
  }

  /** See `endpointKey`. It does not keep the list in memory. */
  key(index: number): EndpointKey {
    const at = index * endpointBytes[this.family];
    const text = this.latin1;
    if (this.family === 'IPv6') return copied(text, at);
    const high = (text.charCodeAt(at) << 8) | text.charCodeAt(at + 1);
    const middle = (text.charCodeAt(at + 2) << 8) | text.charCodeAt(at + 3);
    const low = (text.charCodeAt(at + 4) << 8) | text.charCodeAt(at + 5);
    return (high * 0x1_0000 + middle) * 0x1_0000 + low;
  }

  /** `10.0.0.1:80`, `[fd00::1]:80`. */
  text(index: number): string {
    return formatEndpoint(this.address(index), this.port(index));
  }

  /** The first `most` of them: `10.0.0.1:8080`. */
  texts(most: number = this.length): string[] {
    return Array.from({ length: Math.min(most, this.length) }, (_, i) => this.text(i));
  }

  /** Their indexes, by address and then by port, ascending. */
  sorted(): number[] {
    const runs = Array.from({ length: this.length }, (_, i) => this.run(i));
    return [...runs.keys()].sort((a, b) => (runs[a]! < runs[b]! ? -1 : 1));
  }

  /** A list of the endpoints at these indexes, any of which may be among them more than once. */
  picked(indexes: Uint32Array): EndpointList {
    const stride = endpointBytes[this.family];
    const bytes = new Uint8Array(indexes.length * stride);
    for (let to = 0; to < indexes.length; to += 1) this.copy(indexes[to]!, bytes, to * stride);
    return EndpointList.from(this.family, bytes);
  }

  /** Copies the packed endpoint at `index` to byte `at` of `to`. */
  copy(index: number, to: Uint8Array, at: number): void {
    const stride = endpointBytes[this.family];
    const from = index * stride;
    for (let i = 0; i < stride; i += 1) to[at + i] = this.latin1.charCodeAt(from + i);
  }

  /** Whether the endpoint at `index` here is the one at `otherIndex` of `other`. */
  sameAt(index: number, other: EndpointList, otherIndex: number): boolean {
    const stride = endpointBytes[this.family];
    const a = index * stride;
    const b = otherIndex * stride;
    for (let i = 0; i < stride; i += 1) {
      if (this.latin1.charCodeAt(a + i) !== other.latin1.charCodeAt(b + i)) return false;
    }
    return true;
  }

  /** The index, from `from` on, of the endpoint at `index` of `other`, of one family; -1 = none. */
  find(other: EndpointList, index: number, from = 0): number {
    // The same bytes across two endpoints are rare, as each ends with zeros.
    return indexOfItem(this.latin1, other.run(index), from);
  }

  /**
   * The indexes at which `other` has another endpoint, or none, ascending. The time that it takes
   * follows their number: what is equal is compared as text.
   */
  changedAt(other: EndpointList): number[] {
    const found: number[] = [];
    const shorter = Math.min(this.length, other.length);
    this.#compare(other, 0, shorter, found);
    for (let i = shorter; i < this.length; i += 1) found.push(i);
    return found;
  }

  #compare(other: EndpointList, from: number, to: number, found: number[]): void {
    if (to - from < comparedSingly) {
      for (let i = from; i < to; i += 1) if (!this.sameAt(i, other, i)) found.push(i);
    } else if (this.run(from, to - from) !== other.run(from, to - from)) {
      const middle = (from + to) >> 1;
      this.#compare(other, from, middle, found);
      this.#compare(other, middle, to, found);
    }
  }

  /** The bytes of `count` endpoints from `index` on, a character for each. */
  run(index: number, count = 1): string {
    const stride = endpointBytes[this.family];
    return this.latin1.slice(index * stride, (index + count) * stride);
  }

  /** In a sorted list, the index of the first endpoint that is not before this one (a `run`). */
  lowerBound(one: string): number {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.run(middle) < one) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Same endpoints in the same order. */
  equals(other: EndpointList): boolean {
    return this === other || (this.family === other.family && this.latin1 === other.latin1);
  }
}

/**
 * The key of an IPv6 endpoint, which starts at this character, as a copy: V8 makes a part of a text
 * a view of it, and one key that is kept for an hour would keep the 200 kB of its list.
 */
function copied(text: string, at: number): string {
  const c = (i: number): number => text.charCodeAt(at + i);
  // biome-ignore format: eighteen lines would say no more
  return String.fromCharCode(
    c(0), c(1), c(2), c(3), c(4), c(5), c(6), c(7), c(8),
    c(9), c(10), c(11), c(12), c(13), c(14), c(15), c(16), c(17),
  );
}

/** The keys of all endpoints in lists of one family. */
export function endpointKeys(...lists: readonly EndpointList[]): Set<EndpointKey> {
  const keys = new Set<EndpointKey>();
  for (const list of new Set(lists)) {
    for (let i = 0; i < list.length; i += 1) keys.add(list.key(i));
  }
  return keys;
}

/** The index, from `from` on, of an item in text that has items of its length; -1 = none. */
export function indexOfItem(items: string, item: string, from = 0): number {
  const { length } = item;
  let at = items.indexOf(item, from * length);
  while (at % length > 0) at = items.indexOf(item, at + 1);
  return at < 0 ? -1 : at / length;
}
