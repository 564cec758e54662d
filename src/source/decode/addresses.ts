import { Address, type CIDR, parseAddress, parseCIDR, parseIPv4Number } from '../../net/address.ts';
import { addressReading, cidrReading } from '../../net/reading.ts';
import { specialUse } from '../../net/special-address.ts';
import { type FieldReader, show } from './field-reader.ts';

/** Reads an element of a list of addresses, or a field that must be an address. */
export function readAddress(
  fields: FieldReader,
  value: unknown,
  field: string,
): Address | undefined {
  const text = fields.textItem(value, field);
  if (text === undefined) return undefined;
  const address = parseAddress(text);
  if (address === undefined) return fields.refuse(field, `is not an IP address: ${show(text)}`);
  noteReading(fields, field, text, addressReading(text, address));
  return address;
}

/**
 * Reads an address of a Service, and refuses special ones: an API server checks external IPs only,
 * and manifests are not checked at all.
 */
export function readServiceAddress(
  fields: FieldReader,
  value: unknown,
  field: string,
): Address | undefined {
  const text = typeof value === 'string' ? value : '';
  const number = parseIPv4Number(text);
  if (number !== undefined && isOrdinaryIPv4(number, text.length)) return Address.ofIPv4(number);
  const address = readAddress(fields, value, field);
  const special = address && specialUse(address);
  if (special === undefined) return address;
  return fields.refuse(field, `${show(value)} is ${special}: not usable for a Service`);
}

/**
 * Fast path: whether an IPv4 text of this length needs no warning. It is in canonical form, and
 * `specialUse` accepts it.
 */
export function isOrdinaryIPv4(value: number, textLength: number): boolean {
  return !isSpecialIPv4(value) && textLength === dottedLength(value);
}

/** Whether `specialUse` would refuse the IPv4 address; needs no Address. */
function isSpecialIPv4(value: number): boolean {
  const first = value >>> 24;
  if (value === 0 || first === 127 || value === 0xffff_ffff) return true;
  return value >>> 16 === 0xa9fe || (first >= 224 && first <= 239);
}

/** The length of an IPv4 address as text without leading zeroes. */
function dottedLength(value: number): number {
  let length = 3;
  for (let shift = 0; shift < 32; shift += 8) {
    const octet = (value >>> shift) & 0xff;
    length += octet < 10 ? 1 : octet < 100 ? 2 : 3;
  }
  return length;
}

/** Reads an element of a list of address blocks. */
export function readCIDR(fields: FieldReader, value: unknown, field: string): CIDR | undefined {
  const text = fields.textItem(value, field);
  if (text === undefined) return undefined;
  const cidr = parseCIDR(text);
  if (cidr === undefined) return fields.refuse(field, `is not an address block: ${show(text)}`);
  noteReading(fields, field, text, cidrReading(text, cidr));
  return cidr;
}

function noteReading(
  fields: FieldReader,
  field: string,
  text: string,
  reading: string | undefined,
): void {
  if (reading !== undefined) fields.refuse(field, `${show(text)} is taken as ${reading}`);
}
