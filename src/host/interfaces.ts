/** Addresses of this machine, and whether it can do IPv6. */
import { networkInterfaces } from 'node:os';
import { linkName as ipvsLink } from '../modes/ipvs/layout.ts';
import { linkName as userspaceLink } from '../modes/userspace/layout.ts';
import { type Address, parseAddress } from '../state/address.ts';
import type { HostFiles } from './files.ts';

/**
 * Addresses of all interfaces that are up, loopback included; link-local ones too. Those on the
 * links of modes that bind addresses are the Services'.
 */
export function interfaceAddresses(): Address[] {
  const found: Address[] = [];
  for (const [name, addresses] of Object.entries(networkInterfaces())) {
    if (name === ipvsLink || name === userspaceLink) continue;
    for (const { address } of addresses ?? []) {
      // A zone may follow a link-local address.
      const parsed = parseAddress(address.split('%')[0]!);
      if (parsed !== undefined) found.push(parsed);
    }
  }
  return found;
}

/** Behaviour document 3.5. */
export function ipv6Available(files: HostFiles): boolean {
  if (files.read('/proc/net/if_inet6') === undefined) return false;
  // Without the switch, what `if_inet6` says counts.
  return files.read('/proc/sys/net/ipv6/conf/all/disable_ipv6') !== '1';
}
