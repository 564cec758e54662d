/** Keys of frontends: within one family and protocol, and across all. */
import { addressBytes, type Family, families } from '../net/address.ts';
import type { EndpointKey } from '../net/endpoint-list.ts';
import type { Protocol } from '../net/protocol.ts';
import type { Frontend } from './types.ts';

/**
 * A value that only equal frontends of one family and protocol share, for use as the key of a Map:
 * -port for a node port; otherwise `endpointKey` of the address and port, which is 0 for a range of
 * ports: an address has one.
 */
export type FrontendKey = EndpointKey;

type Place = Pick<Frontend, 'address' | 'port' | 'lastPort'>;

/** The port in keys of the frontend. */
export function keyPort({ lastPort, port }: Omit<Place, 'address'>): number {
  return lastPort === undefined ? port : 0;
}

export function frontendKey(frontend: Place): FrontendKey {
  const { address } = frontend;
  const port = keyPort(frontend);
  if (address === undefined) return nodePortKey(port);
  const { key } = address;
  if (typeof key === 'number') return key * 0x1_0000 + port;
  // By `join` for the same reason as in `objectKey`.
  return [key, String.fromCharCode(port >> 8, port & 0xff)].join('');
}

export function nodePortKey(port: number): FrontendKey {
  return -port;
}

/** The key of the range of ports at the same address; itself if it is one. */
export function rangeKey(key: FrontendKey): FrontendKey {
  return typeof key === 'number' ? key - (key % 0x1_0000) : `${key.slice(0, -2)}\0\0`;
}

/** The key with the port of another one of the family. */
export function withPortOf(key: EndpointKey, other: EndpointKey): EndpointKey {
  if (typeof key === 'string') return key.slice(0, -2) + String(other).slice(-2);
  return key - (key % 0x1_0000) + (Number(other) % 0x1_0000);
}

export function isNodePortKey(key: FrontendKey): boolean {
  return typeof key === 'number' && key < 0;
}

/** Identifies a frontend across families and protocols. */
export type ClaimKey = number | string;

/** The `ClaimKey` of a node port. */
export type NodePortKey = string;

const protocolNumbers = { TCP: 0, UDP: 1, SCTP: 2 } as const satisfies Record<Protocol, number>;

/**
 * A number for IPv4 addresses: strings for tens of thousands of Services would take memory. For
 * IPv6 addresses at least `endpointKey`, which is longer than that of any node port.
 */
export function claimKey(family: Family, protocol: Protocol, frontend: Place): ClaimKey {
  const key = frontendKey(frontend);
  if (typeof key === 'string') return protocol === 'TCP' ? key : [protocol, key].join('');
  if (key < 0) return nodePortClaim(family, protocol, -key);
  // The protocol is above the 48 bits of address and port.
  return protocolNumbers[protocol] * 2 ** 48 + key;
}

/** Of an IPv6 address and port. */
const keyLength = addressBytes.IPv6 + 2;

export function familyOf(key: ClaimKey): Family {
  if (typeof key === 'number') return 'IPv4';
  return key.length < keyLength && key.startsWith('IPv4') ? 'IPv4' : 'IPv6';
}

export function nodePortClaim(family: Family, protocol: Protocol, port: number): NodePortKey {
  return [family, protocol, nodePortKey(port)].join(' ');
}

/** Node ports of a health-check node port, which answers in both families; empty if it is 0. */
export function nodePortsOf(healthCheckNodePort: number): readonly NodePortKey[] {
  if (healthCheckNodePort === 0) return [];
  return families.map((family) => nodePortClaim(family, 'TCP', healthCheckNodePort));
}
