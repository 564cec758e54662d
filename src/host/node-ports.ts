/** Which of this machine's addresses accept node ports (behaviour document 3.3 and 5.9). */
import type { NodePortAddresses } from '../config/settings/makers.ts';
import type { Environment } from '../modes/mode.ts';
import {
  type Address,
  cidrContains,
  type Family,
  formatAddress,
  isLoopback,
} from '../net/address.ts';
import type { NodeIPs } from './node-ips.ts';

/**
 * Never a loopback address. CIDRs of one family do not restrict the other. `interfaces` is asked
 * only when CIDRs decide.
 */
export function nodePortAddresses(
  config: NodePortAddresses,
  family: Family,
  ips: NodeIPs,
  interfaces: () => readonly Address[],
): Environment['nodePortAddresses'] {
  const addresses = listeningAddresses(config, family, ips, interfaces);
  return addresses === 'all' ? 'all' : addresses.filter((address) => !isLoopback(address));
}

/** The same for sockets (10.2): with loopback addresses, where CIDRs contain them. */
export function listeningAddresses(
  config: NodePortAddresses,
  family: Family,
  ips: NodeIPs,
  interfaces: () => readonly Address[],
): Environment['nodePortAddresses'] {
  switch (config.kind) {
    case 'all':
      return 'all';
    case 'listed': {
      const cidrs = config.cidrs.filter(({ address }) => address.family === family);
      const primary = config.primary && !isLoopback(ips[family]) ? [ips[family]] : [];
      const isNone = cidrs.length === 0 && primary.length === 0;
      if (isNone || cidrs.some(({ prefixLength }) => prefixLength === 0)) return 'all';
      const found = cidrs.length === 0 ? [] : interfaces();
      const matching = [
        ...primary,
        ...found.filter((address) => cidrs.some((cidr) => cidrContains(cidr, address))),
      ];
      const unique = new Map(matching.map((address) => [formatAddress(address.bytes), address]));
      return [...unique.keys()].sort().map((text) => unique.get(text)!);
    }
  }
}
