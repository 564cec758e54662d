/** Node ports on loopback addresses, in modes iptables and userspace (behaviour document 7.7). */
import type { Config } from '../config/config.ts';
import { cidrContains, type Family } from '../net/address.ts';
import type { SettingChange } from './conntrack.ts';
import type { HostFiles } from './files.ts';
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

const path = '/proc/sys/net/ipv4/conf/all/route_localnet';

/**
 * Lets packets with loopback addresses be routed. `changed` is told if that was not so. It is never
 * taken back: others may rely on it. Throws an Error of one line.
 */
export function setRouteLocalnet(files: HostFiles, changed: (change: SettingChange) => void): void {
  const from = files.read(path);
  if (from === '1') return;
  try {
    files.write(path, '1');
  } catch (error) {
    const reason = `${(error as Error).message} (iptables.localhostNodePorts: false leaves it alone)`;
    throw new Error(`could not let node ports answer on localhost: ${path} to 1: ${reason}`);
  }
  changed({ path, from, to: '1' });
}
