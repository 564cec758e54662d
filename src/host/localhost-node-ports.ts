/** Node ports on loopback addresses (behaviour document 7.7). */
import type { Config } from '../config/config.ts';
import type { ModeFacts } from '../modes/mode.ts';
import { cidrContains, type Family } from '../net/address.ts';
import { loopback } from './node-ips.ts';

type Settings = Pick<Config, 'iptables' | 'nodePortAddresses'>;

/**
 * Whether a mode that can do it is to open them (`ModeFacts.localhost`). Only for IPv4: the kernel
 * never routes ::1.
 */
export function hasLocalhostNodePorts(config: Settings, family: Family): boolean {
  if (family !== 'IPv4' || !config.iptables.localhostNodePorts) return false;
  const { nodePortAddresses: allowed } = config;
  switch (allowed.kind) {
    case 'all':
      return true;
    case 'listed': {
      const cidrs = allowed.cidrs.filter(({ address }) => address.family === family);
      if (cidrs.length === 0) return !allowed.primary;
      return cidrs.some((cidr) => cidrContains(cidr, loopback.IPv4));
    }
  }
}

/**
 * Reports whether sockets must open node ports at loopback addresses in addition to the mode's
 * rules: if the configuration names loopback addresses, as in KEP-6032. "All addresses" does not
 * name them.
 */
export function listensOnLocalhost(
  { featureGates, nodePortAddresses: allowed }: Pick<Config, 'featureGates' | 'nodePortAddresses'>,
  { localhost = [] }: Pick<ModeFacts, 'localhost'>,
  family: Family,
): boolean {
  if (!featureGates.KubeProxyNFTablesLocalhostNodePorts || localhost.includes(family)) return false;
  if (allowed.kind === 'all') return false;
  return allowed.cidrs.some(
    (cidr) => cidr.prefixLength > 0 && cidrContains(cidr, loopback[family]),
  );
}
