import type { EndpointKey } from '../net/endpoint-list.ts';
import type { Frontend } from './types.ts';

/**
 * A value that only equal frontends of one family and protocol share, for use as the key of a Map:
 * for a node port -port; else as `endpointKey` makes it of the address and port.
 */
export type FrontendKey = EndpointKey;

const keyOfIPv6 = Buffer.alloc(18);

export function frontendKey({ address, port }: Pick<Frontend, 'address' | 'port'>): FrontendKey {
  if (address === undefined) return nodePortKey(port);
  const { bytes, family } = address;
  if (family === 'IPv4') {
    const number = ((bytes[0]! << 24) | (bytes[1]! << 16) | (bytes[2]! << 8) | bytes[3]!) >>> 0;
    return number * 0x1_0000 + port;
  }
  keyOfIPv6.set(bytes);
  keyOfIPv6.writeUInt16BE(port, 16);
  return keyOfIPv6.toString('latin1');
}

export function nodePortKey(port: number): FrontendKey {
  return -port;
}

export function isNodePortKey(key: FrontendKey): boolean {
  return typeof key === 'number' && key < 0;
}
