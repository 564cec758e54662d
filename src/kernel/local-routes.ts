/** Routes that deliver packets to this machine. */
import { readFileSync } from 'node:fs';

const path = '/proc/net/ipv6_route';

/** linux/ipv6_route.h */
const RTF_LOCAL = 0x8000_0000;

/**
 * The IPv6 addresses that packets are delivered to in the network namespace of this process, each
 * in hexadecimal. Undefined if the kernel does not report it.
 */
export function localAddresses(): Set<string> | undefined {
  try {
    return parseLocalRoutes(readFileSync(path, 'latin1'));
  } catch {
    return undefined;
  }
}

/** Destination with its prefix length, the same of the source, gateway, metric, counts, flags. */
export function parseLocalRoutes(text: string): Set<string> {
  const found = new Set<string>();
  for (const line of text.split('\n')) {
    const fields = line.split(/\s+/);
    const [destination = '', prefixLength] = fields;
    const flags = Number.parseInt(fields[8] ?? '0', 16);
    if ((flags & RTF_LOCAL) !== 0 && prefixLength === '80') found.add(destination);
  }
  return found;
}
