/**
 * Addresses that other programs may read differently: leading zeroes mean octal elsewhere, IPv4 in
 * IPv6's form may count as IPv6, and bits beyond a prefix may have been meant.
 */
import { type Address, type CIDR, formatAddress, formatCIDR, parseAddress } from './address.ts';

/** Returns the address in its usual form if other programs may read `text` differently. */
export function addressReading(text: string, { family, bytes }: Address): string | undefined {
  // Every program reads all forms of an IPv6 address alike.
  if (family === 'IPv6') return undefined;
  const reading = formatAddress(bytes);
  return reading === text ? undefined : reading;
}

/** The same for a block. */
export function cidrReading(text: string, cidr: CIDR): string | undefined {
  const { family, bytes } = cidr.address;
  const reading = formatCIDR(cidr);
  if (family === 'IPv4') return reading === text ? undefined : reading;
  const given = parseAddress(text.slice(0, text.indexOf('/')))?.bytes;
  return given?.some((byte, i) => byte !== bytes[i]) ? reading : undefined;
}
