/**
 * Keys and values of the maps, byte by byte: those of `native/bpf/layout.h`. Numbers have the order
 * of the host, ports and addresses that of the network. IPv4 addresses have the form
 * ::ffff:10.96.0.1.
 */
import { IPPROTO } from '../../kernel/nft/constants.ts';
import { binary } from '../../modes/elements.ts';
import { Address, addressBytes, type Family } from '../../net/address.ts';
import { type EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import type { Ports } from '../../state/port-range.ts';
import { poolIdBytes } from './pool-ids.ts';

/** AF_INET, AF_INET6. */
export const addressFamily = { IPv4: 2, IPv6: 10 } as const satisfies Record<Family, number>;

export const mapNames = {
  IPv4: {
    frontends: 'frontends4',
    endpoints: 'endpoints4',
    excluded: 'excluded4',
    secret: 'secret4',
  },
  IPv6: {
    frontends: 'frontends6',
    endpoints: 'endpoints6',
    excluded: 'excluded6',
    secret: 'secret6',
  },
} as const satisfies Record<Family, Record<string, string>>;

/** Endpoints of a pool in one element: each element costs the kernel time and memory. */
export const groupSize = 4;

const endpointLength = 20;

export const keyBytes = { frontends: 20, endpoints: 24, excluded: 8, secret: 4 } as const;
export const valueBytes = {
  frontends: 24,
  endpoints: groupSize * endpointLength,
  excluded: 4,
  secret: 16,
} as const;

/** The kinds of frontend keys. */
const Kind = { frontend: 0, nodePort: 1, address: 2 } as const;

const addressLength = 16;
const kindAt = 19;
const mappedPrefix = Uint8Array.of(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff);

/** The key of a frontend. Without an address: of a node port. */
export function frontendKey(address: Address | undefined, port: number): Uint8Array {
  const key = new Uint8Array(keyBytes.frontends);
  if (address === undefined) key[kindAt] = Kind.nodePort;
  else key.set(widened(address.bytes));
  key[addressLength] = port >> 8;
  key[addressLength + 1] = port & 0xff;
  key[addressLength + 2] = IPPROTO.TCP;
  return key;
}

/** The key of an address that accepts node ports, or of the range of ports of an address. */
export function addressKey(address: Address): Uint8Array {
  const key = new Uint8Array(keyBytes.frontends);
  key.set(widened(address.bytes));
  key[kindAt] = Kind.address;
  return key;
}

/** Whether it is the element of an address that accepts node ports. */
export function isNodeAddress(key: Uint8Array, value: Uint8Array): boolean {
  return key[kindAt] === Kind.address && countOf(value) === 0;
}

/** The number of endpoints of a frontend. */
export function countOf(value: Uint8Array): number {
  return new DataView(value.buffer, value.byteOffset).getUint32(poolIdBytes, true);
}

function widened(bytes: Uint8Array): Uint8Array {
  return bytes.length === addressLength ? bytes : Buffer.concat([mappedPrefix, bytes]);
}

/** The value of a frontend. `count` 0: rules handle it. `ports`: of a range. */
export function poolValue(id: Uint8Array, count: number, ports?: Ports): Uint8Array {
  const value = new Uint8Array(valueBytes.frontends);
  value.set(id);
  const view = new DataView(value.buffer);
  view.setUint32(id.length, count, true);
  if (ports?.lastPort !== undefined) {
    view.setUint16(id.length + 4, ports.port, true);
    view.setUint16(id.length + 6, ports.lastPort, true);
  }
  return value;
}

/** The value of a node's address. A loopback address is for `node` only: pods have their own. */
export function nodeAddressValue(reach: 'everybody' | 'node'): Uint8Array {
  const value = new Uint8Array(valueBytes.frontends);
  if (reach === 'node') value[poolIdBytes + 4] = 1;
  return value;
}

/** The number of groups that a number of endpoints takes. */
export function groupCount(endpoints: number): number {
  return Math.ceil(endpoints / groupSize);
}

/** Writes the key of a group of a pool. `to` must contain zeroes there. */
export function writeGroupKey(to: Uint8Array, at: number, id: Uint8Array, number: number): void {
  for (let i = 0; i < poolIdBytes; i += 1) to[at + i] = id[i]!;
  for (let i = 0; i < 4; i += 1) to[at + poolIdBytes + i] = number >>> (8 * i);
}

/** The inverse of `writeGroupKey`. */
export function readGroupKey(key: Uint8Array): { readonly pool: string; readonly number: number } {
  const view = new DataView(key.buffer, key.byteOffset);
  return {
    pool: binary(key.subarray(0, poolIdBytes)),
    number: view.getUint32(poolIdBytes, true),
  };
}

/** The value of a group. */
export function groupValue(list: EndpointList, number: number): Uint8Array {
  const value = new Uint8Array(valueBytes.endpoints);
  writeGroupValue(value, 0, list, number);
  return value;
}

/** Writes the value of a group. `to` must contain zeroes there. */
export function writeGroupValue(
  to: Uint8Array,
  at: number,
  list: EndpointList,
  number: number,
): void {
  const first = number * groupSize;
  const count = Math.min(groupSize, list.length - first);
  for (let i = 0; i < count; i += 1) {
    writeEndpoint(to, at + i * endpointLength, list, first + i);
  }
}

/** Whether both lists have the same group. */
export function hasSameGroup(a: EndpointList, b: EndpointList, number: number): boolean {
  const first = number * groupSize;
  const end = Math.min(a.length, first + groupSize);
  if (end !== Math.min(b.length, first + groupSize)) return false;
  for (let i = first; i < end; i += 1) if (!a.sameAt(i, b, i)) return false;
  return true;
}

/** The endpoints of a group in the form of an `EndpointList`. */
export function packedGroup(family: Family, value: Uint8Array): Uint8Array {
  const endpoints = Array.from({ length: groupSize }, (_, i) =>
    packedEndpoint(family, value.subarray(i * endpointLength, (i + 1) * endpointLength)),
  );
  return Buffer.concat(endpoints.filter((one) => one.some((byte) => byte !== 0)));
}

function writeEndpoint(to: Uint8Array, at: number, list: EndpointList, index: number): void {
  const begin = at + endpointLength - endpointBytes[list.family];
  list.copy(index, to, begin);
  // ::ffff:0:0/96
  if (list.family === 'IPv4') to[begin - 1] = to[begin - 2] = 0xff;
}

function packedEndpoint(family: Family, value: Uint8Array): Uint8Array {
  return value.subarray(endpointLength - endpointBytes[family]);
}

/** In place of the number of a cgroup. Its element marks that the map has all excluded cgroups. */
export const allExcluded = 0n;

/** The most cgroups that the map holds. */
export const excludedMax = 2 ** 12;

export function excludedKey(cgroup: bigint): Uint8Array {
  const key = new Uint8Array(keyBytes.excluded);
  new DataView(key.buffer).setBigUint64(0, cgroup, true);
  return key;
}

/** The inverse of `excludedKey`. */
export function readExcludedKey(key: Uint8Array): bigint {
  return new DataView(key.buffer, key.byteOffset).getBigUint64(0, true);
}

/** Not used by programs. */
export const excludedValue = new Uint8Array(valueBytes.excluded);

/** Sizes of the maps that count connections: a key is a frontend's key and an endpoint. */
export const countedBytes = {
  frontendBytes: keyBytes.frontends,
  keyBytes: keyBytes.frontends + endpointLength,
  valueBytes: 8,
} as const;

/**
 * Reads the key of a count. Without an address: of a node port. Without an endpoint: the sum of
 * deleted elements.
 */
export function readCountedKey(family: Family, key: Uint8Array) {
  const frontend = key.subarray(0, keyBytes.frontends);
  const endpoint = packedEndpoint(family, key.subarray(keyBytes.frontends));
  const own = addressBytes[family];
  const isNodePort = frontend[kindAt] === Kind.nodePort;
  const bytes = frontend.subarray(addressLength - own, addressLength);
  return {
    frontend,
    address: isNodePort ? undefined : Address.from(bytes),
    port: portAt(frontend, addressLength),
    /** The only protocol that programs translate. */
    protocol: 'TCP' as const,
    endpoint: endpoint.every((byte) => byte === 0)
      ? undefined
      : { bytes: endpoint.subarray(0, own), port: portAt(endpoint, own) },
  };
}

function portAt(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 8) | bytes[at + 1]!;
}
