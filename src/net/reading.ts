/**
 * Addresses that are read as something else than others may read: leading zeroes mean octal
 * elsewhere, IPv4 in IPv6's form is no IPv6, and bits beyond a prefix may have meant something.
 */
import { type Address, type CIDR, formatAddress, formatCIDR, parseAddress } from './address.ts';

/** What `text` was read as, in the usual form; undefined when nobody would read it otherwise. */
export function addressReading(text: string, { family, bytes }: Address): string | undefined {
  // IPv6 has many forms that say the same.
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
