import { addressBytes, type Family, formatEndpoint } from './address.ts';

/** Bytes of one packed endpoint of each family: the address, the port, two zero bytes. */
export const endpointBytes = { IPv4: 8, IPv6: 20 } as const satisfies Record<Family, number>;

/**
 * A value that only equal endpoints of one family share, for use in a Set or as the key of a Map:
 * 48 bits as a number for IPv4, the bytes as a Latin-1 string for IPv6.
 */
export type EndpointKey = number | string;

/** The key of the address and port (network order) that start at byte `at` of `bytes`. */
export function endpointKey(family: Family, bytes: Uint8Array, at: number): EndpointKey {
  const b = bytes;
  if (family === 'IPv4') {
    const low = ((b[at + 2]! << 24) | (b[at + 3]! << 16) | (b[at + 4]! << 8) | b[at + 5]!) >>> 0;
    return ((b[at]! << 8) | b[at + 1]!) * 0x1_0000_0000 + low;
  }
  return Buffer.from(b.buffer, b.byteOffset + at, endpointBytes.IPv6 - 2).toString('latin1');
}

/**
 * An immutable list of endpoints (address and port), packed: for each the address in network
 * order, then the port in network order, then two zero bytes. That is the form of nf_tables'
 * `ip daddr . th dport` data, so that a mode copies instead of converting, and 240,000 endpoints
 * take 2 MB instead of 40.
 */
export class EndpointList {
  static readonly empty = {
    IPv4: new EndpointList('IPv4', new Uint8Array(0)),
    IPv6: new EndpointList('IPv6', new Uint8Array(0)),
  } as const satisfies Record<Family, EndpointList>;

  readonly family: Family;
  /** `length * endpointBytes[family]` bytes. Never written to after construction. */
  readonly bytes: Uint8Array;

  constructor(family: Family, bytes: Uint8Array) {
    this.family = family;
    this.bytes = bytes;
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
    return new EndpointList(family, bytes);
  }

  get length(): number {
    return this.bytes.length / endpointBytes[this.family];
  }

  /** The packed endpoint at `index`: a view, not a copy. */
  packed(index: number): Uint8Array {
    const stride = endpointBytes[this.family];
    return this.bytes.subarray(index * stride, (index + 1) * stride);
  }

  /** Network order; a view, not a copy. */
  address(index: number): Uint8Array {
    const at = index * endpointBytes[this.family];
    return this.bytes.subarray(at, at + addressBytes[this.family]);
  }

  /** Host order. */
  port(index: number): number {
    const at = index * endpointBytes[this.family] + addressBytes[this.family];
    return (this.bytes[at]! << 8) | this.bytes[at + 1]!;
  }

  /** See `endpointKey`. */
  key(index: number): EndpointKey {
    return endpointKey(this.family, this.bytes, index * endpointBytes[this.family]);
  }

  /** `10.0.0.1:80`, `[fd00::1]:80`. */
  text(index: number): string {
    return formatEndpoint(this.address(index), this.port(index));
  }

  /** The first `most` of them: `10.0.0.1:8080`. */
  texts(most: number = this.length): string[] {
    return Array.from({ length: Math.min(most, this.length) }, (_, i) => this.text(i));
  }

  /** A list of the endpoints at these indexes, any of which may be among them more than once. */
  picked(indexes: Uint32Array): EndpointList {
    const stride = endpointBytes[this.family];
    const bytes = new Uint8Array(indexes.length * stride);
    for (let to = 0; to < indexes.length; to += 1) {
      const from = indexes[to]! * stride;
      for (let b = 0; b < stride; b += 1) bytes[to * stride + b] = this.bytes[from + b]!;
    }
    return new EndpointList(this.family, bytes);
  }

  /** Whether the endpoint at `index` here is the one at `otherIndex` of `other`. */
  sameAt(index: number, other: EndpointList, otherIndex: number): boolean {
    const stride = endpointBytes[this.family];
    const a = index * stride;
    const b = otherIndex * stride;
    for (let i = 0; i < stride; i += 1) {
      if (this.bytes[a + i] !== other.bytes[b + i]) return false;
    }
    return true;
  }

  /** Same endpoints in the same order. */
  equals(other: EndpointList): boolean {
    if (this === other) return true;
    if (this.family !== other.family || this.bytes.length !== other.bytes.length) return false;
    return Buffer.compare(this.bytes, other.bytes) === 0;
  }
}
