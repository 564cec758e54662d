import { type Address, type CIDR, parseAddress, parseCIDR } from '../../net/address.ts';
import { addressReading, cidrReading } from '../../net/reading.ts';
import { specialUse } from '../../net/special-address.ts';
import { type Door, show } from './door.ts';

/** An element of a list of addresses, or a field that must be one. */
export function readAddress(door: Door, value: unknown, field: string): Address | undefined {
  const text = door.textItem(value, field);
  if (text === undefined) return undefined;
  const address = parseAddress(text);
  if (address === undefined) return door.refuse(field, `is no IP address: ${show(text)}`);
  noteReading(door, field, text, addressReading(text, address));
  return address;
}

/**
 * An address that a Service may have, wherever the object comes from: an API server looks at
 * external IPs only, and at manifests nobody has looked before.
 */
export function readServiceAddress(door: Door, value: unknown, field: string): Address | undefined {
  const address = readAddress(door, value, field);
  const special = address && specialUse(address);
  if (special === undefined) return address;
  return door.refuse(field, `${show(value)} is ${special}: not usable for a Service`);
}

/** An element of a list of address blocks. */
export function readCIDR(door: Door, value: unknown, field: string): CIDR | undefined {
  const text = door.textItem(value, field);
  if (text === undefined) return undefined;
  const cidr = parseCIDR(text);
  if (cidr === undefined) return door.refuse(field, `is no address block: ${show(text)}`);
  noteReading(door, field, text, cidrReading(text, cidr));
  return cidr;
}

function noteReading(door: Door, field: string, text: string, reading: string | undefined): void {
  if (reading !== undefined) door.refuse(field, `${show(text)} is taken as ${reading}`);
}
