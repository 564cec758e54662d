/** Addresses of this machine, and whether it can do IPv6. */
import { networkInterfaces } from 'node:os';
import { availableModes } from '../modes/index.ts';
import { type Address, parseAddress } from '../net/address.ts';
import type { HostFiles } from './files.ts';
import { isLinkLocalV6 } from './node-ips.ts';

/** The addresses of each interface, by its name. */
type Interfaces = Readonly<Record<string, readonly { readonly address: string }[] | undefined>>;

const linksOfModes = new Set(availableModes().map(({ link }) => link));

/**
 * Addresses of all interfaces that are up, loopback included, each once and in an order that does
 * not depend on the interfaces. Left out are addresses on the links of modes that bind addresses,
 * which belong to Services, and link-local addresses of IPv6: every pod's interface has one.
 */
export function interfaceAddresses(interfaces: Interfaces = networkInterfaces()): Address[] {
  const texts = new Set<string>();
  for (const [name, addresses] of Object.entries(interfaces)) {
    if (linksOfModes.has(name)) continue;
    // A link-local address may have a zone.
    for (const { address } of addresses ?? []) texts.add(address.split('%')[0]!);
  }
  return [...texts].sort().flatMap((text) => {
    const address = parseAddress(text);
    return address === undefined || isLinkLocalV6(address) ? [] : [address];
  });
}

/**
 * Reads the addresses again and again. Where that fails (the system lacks descriptors or memory),
 * the last ones hold: `failed` is called for the first failure in a row, `restored` after the last.
 * Only the first call throws.
 */
export function steadyAddresses(
  read: () => readonly Address[],
  { failed, restored }: { readonly failed: (error: Error) => void; readonly restored: () => void },
): () => readonly Address[] {
  let last: readonly Address[] | undefined;
  let isFailing = false;
  return () => {
    try {
      last = read();
      if (isFailing) restored();
      isFailing = false;
    } catch (error) {
      if (last === undefined) throw error;
      if (!isFailing) failed(error as Error);
      isFailing = true;
    }
    return last;
  };
}

/** Behaviour document 3.5. */
export function ipv6Available(files: HostFiles): boolean {
  if (files.read('/proc/net/if_inet6') === undefined) return false;
  // Where the setting does not exist, `if_inet6` decides.
  return files.read('/proc/sys/net/ipv6/conf/all/disable_ipv6') !== '1';
}
