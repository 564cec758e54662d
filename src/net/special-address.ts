/** Addresses that have a special meaning on every node. */
import { Address, type CIDR, cidrContains, type Family, parseCIDR } from './address.ts';

/** 127.0.0.1 */
export const localhost = Address.ofIPv4(0x7f_00_00_01);

/** What is for the node itself only. */
export const loopbackBlocks = {
  IPv4: parseCIDR('127.0.0.0/8')!,
  IPv6: parseCIDR('::1/128')!,
} as const satisfies Record<Family, CIDR>;

/**
 * The addresses that an API server refuses for endpoints and external IPs (ValidateNonSpecialIP),
 * and also all of multicast, and broadcast. An API server does not check load balancers' addresses.
 */
const special: readonly (readonly [block: CIDR, words: string])[] = (
  [
    ['0.0.0.0/32', 'the unspecified address'],
    ['127.0.0.0/8', 'a loopback address'],
    ['169.254.0.0/16', 'a link-local address'],
    ['224.0.0.0/4', 'a multicast address'],
    ['255.255.255.255/32', 'the broadcast address'],
    ['::/128', 'the unspecified address'],
    ['::1/128', 'a loopback address'],
    ['fe80::/10', 'a link-local address'],
    ['ff00::/8', 'a multicast address'],
  ] as const
).map(([text, words]) => [parseCIDR(text)!, words]);

/**
 * What is special about an address: `a loopback address`; undefined = nothing. A Service or an
 * endpoint there would let its author reach, or replace, what the node itself has there.
 */
export function specialUse(address: Address): string | undefined {
  return special.find(([block]) => cidrContains(block, address))?.[1];
}

/** The same of any address in a block. */
export function specialUseWithin(cidr: CIDR): string | undefined {
  const holds = ([block]: (typeof special)[number]): boolean =>
    cidrContains(cidr, block.address) || cidrContains(block, cidr.address);
  return special.find(holds)?.[1];
}
