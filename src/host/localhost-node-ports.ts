/** Node ports on loopback addresses, in modes iptables and userspace (behaviour document 7.7). */
import type { Config } from '../config/config.ts';
import { cidrContains, type Family } from '../net/address.ts';
import { loopback } from './node-ips.ts';

type Settings = Pick<Config, 'iptables' | 'nodePortAddresses'>;

/** Only for IPv4: the kernel never routes ::1. */
export function hasLocalhostNodePorts(config: Settings, family: Family): boolean {
  if (family !== 'IPv4' || !config.iptables.localhostNodePorts) return false;
  const { nodePortAddresses: allowed } = config;
  switch (allowed.kind) {
    case 'all':
      return true;
    case 'primary':
      return false;
    case 'cidrs': {
      const cidrs = allowed.cidrs.filter(({ address }) => address.family === family);
      return cidrs.length === 0 || cidrs.some((cidr) => cidrContains(cidr, loopback.IPv4));
    }
  }
}
