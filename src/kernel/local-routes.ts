/** Routes that deliver packets to this machine. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const path = '/proc/net/ipv6_route';

/** linux/ipv6_route.h */
const RTF_LOCAL = 0x8000_0000;

const checkMs = 2;
const patienceMs = 1000;

/**
 * The kernel adds the route of an IPv6 address later than the address (addrconf_dad_work). Resolves
 * when all of these addresses have their routes, or after a while.
 */
export async function untilLocal(addresses: readonly Uint8Array[]): Promise<void> {
  if (addresses.length === 0) return;
  const texts = addresses.map((bytes) => Buffer.from(bytes).toString('hex'));
  const endMs = performance.now() + patienceMs;
  while (performance.now() < endMs) {
    const local = localAddresses();
    if (local === undefined || texts.every((text) => local.has(text))) return;
    await sleep(checkMs);
  }
}

/**
 * The IPv6 addresses that packets are delivered to in the network namespace of this process, each
 * in hexadecimal. Undefined if the kernel does not report it.
 */
function localAddresses(): Set<string> | undefined {
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
