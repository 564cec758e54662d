import { type Address, type CIDR, parseAddress, parseCIDR } from '../../net/address.ts';
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
  if (address === undefined) return fields.refuse(field, `is no IP address: ${show(text)}`);
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
  const address = readAddress(fields, value, field);
  const special = address && specialUse(address);
  if (special === undefined) return address;
  return fields.refuse(field, `${show(value)} is ${special}: not usable for a Service`);
}

/** Reads an element of a list of address blocks. */
export function readCIDR(fields: FieldReader, value: unknown, field: string): CIDR | undefined {
  const text = fields.textItem(value, field);
  if (text === undefined) return undefined;
  const cidr = parseCIDR(text);
  if (cidr === undefined) return fields.refuse(field, `is no address block: ${show(text)}`);
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
