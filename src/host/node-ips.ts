/** Which addresses are the node's own (behaviour document 3.2). */
import { type Address, type Family, formatAddress, parseAddress } from '../net/address.ts';
import type { Node } from '../state/types.ts';

export interface NodeIPs {
  readonly primary: Family;
  readonly IPv4: Address;
  readonly IPv6: Address;
}

export const loopback = {
  IPv4: parseAddress('127.0.0.1')!,
  IPv6: parseAddress('::1')!,
} as const satisfies Record<Family, Address>;

/**
 * The Node's addresses override loopback, and its first one sets the primary family. A bind
 * address other than a wildcard overrides both. `node` is undefined while it is not known.
 */
export function nodeIPs(node: Node | undefined, bindAddress: Address): NodeIPs {
  const found: Record<Family, Address> = { ...loopback };
  let primary: Family = 'IPv4';
  for (const address of [...(node?.addresses ?? [])].reverse()) {
    found[address.family] = address;
    primary = address.family;
  }
  if (bindAddress.bytes.some((byte) => byte !== 0)) {
    found[bindAddress.family] = bindAddress;
    primary = bindAddress.family;
  }
  return { primary, ...found };
}

/** Whether it is a link-local IPv6 address, which every interface has. */
export function isLinkLocalV6({ family, bytes }: Address): boolean {
  return family === 'IPv6' && bytes[0] === 0xfe && (bytes[1]! & 0xc0) === 0x80;
}

/** The Node's addresses in their order, for logs. */
export function addressTexts(node: Node | undefined): string {
  return (node?.addresses ?? []).map(({ bytes }) => formatAddress(bytes)).join();
}
