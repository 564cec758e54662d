/** Keys of elements, for all modes that have sets of nf_tables. Pure. */
import { IPPROTO } from '../kernel/nft/constants.ts';
import { type Address, addressBytes } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';

/** Bytes as a string with one character each, for use as a Map key. */
export function binary(bytes: Uint8Array): string {
  if (bytes.length === 4) return String.fromCharCode(bytes[0]!, bytes[1]!, bytes[2]!, bytes[3]!);
  // Not `...bytes`, which costs five times as much: a restart makes several for each Service.
  return Reflect.apply(String.fromCharCode, undefined, bytes);
}

/** The inverse of `binary`. */
export function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** `[address .] protocol (IPPROTO_*) . port` with each part padded to a register. */
export function destinationKey(
  address: Address | undefined,
  protocol: number,
  port: number,
): Uint8Array {
  const length = address === undefined ? 0 : addressBytes[address.family];
  const key = new Uint8Array(length + 8);
  putDestination(key, address, protocol, port);
  return key;
}

/** Writes such a key to the beginning of `to`. Returns its length. */
export function putDestination(
  to: Uint8Array,
  address: Address | undefined,
  protocol: number,
  port: number,
): number {
  const length = address === undefined ? 0 : addressBytes[address.family];
  address?.copy(to, 0);
  for (let i = 0; i < 8; i += 1) to[length + i] = 0;
  to[length] = protocol;
  to[length + 4] = port >> 8;
  to[length + 5] = port & 0xff;
  return length + 8;
}

const noKeys: readonly Uint8Array[] = [];

/**
 * Keys of `hairpin`: address . address . protocol . port of each endpoint on this node, or of
 * those of another list; where frontends have ranges of ports, also with the port 0.
 */
export function hairpinKeys(
  { frontends, hairpin: ofNode, family, servicePort }: Forwarding,
  hairpin = ofNode,
): readonly Uint8Array[] {
  if (hairpin.length === 0) return noKeys;
  const length = addressBytes[family];
  const hasRange = frontends.some(({ lastPort }) => lastPort !== undefined);
  return Array.from({ length: hairpin.length * (hasRange ? 2 : 1) }, (_, at) => {
    const i = at % hairpin.length;
    const packed = hairpin.packed(i);
    const key = new Uint8Array(2 * length + 8);
    key.set(packed.subarray(0, length));
    key.set(packed.subarray(0, length), length);
    key[2 * length] = IPPROTO[servicePort.protocol];
    if (i === at) key.set(packed.subarray(length), 2 * length + 4);
    return key;
  });
}
