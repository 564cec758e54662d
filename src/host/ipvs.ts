/** The sysctls of ipvs mode (behaviour document 8.1). */
import { release } from 'node:os';
import type { IpvsConfig } from '../config/config.ts';
import type { IPVSSettings } from '../modes/mode.ts';
import type { SettingChange } from './conntrack.ts';
import type { HostFiles } from './files.ts';

export function ipvsSettings(config: IpvsConfig): IPVSSettings {
  // As upstream, in whole seconds; but what is not 0 must not become it.
  const seconds = (ms: number): number => Math.ceil(ms / 1000);
  return {
    scheduler: config.scheduler,
    excludeCIDRs: config.excludeCIDRs,
    tcpTimeoutSeconds: seconds(config.tcpTimeoutMs),
    tcpFinTimeoutSeconds: seconds(config.tcpFinTimeoutMs),
    udpTimeoutSeconds: seconds(config.udpTimeoutMs),
  };
}

interface Sysctl {
  readonly path: string;
  readonly value: string;
  /** In case that it can't be written. */
  readonly why: string;
}

/**
 * Writes what differs. `report` is told of each setting, also of those that are right already.
 * Throws an Error of one line that names the file and says what it is for.
 */
export function setIPVS(
  config: Pick<IpvsConfig, 'strictARP'>,
  files: HostFiles,
  report: (setting: SettingChange) => void,
  kernel = release(),
): void {
  for (const { path, value, why } of wanted(config, kernel)) {
    try {
      const from = files.read(path);
      if (from !== value) files.write(path, value);
      report({ path, from, to: value });
    } catch (error) {
      const { message } = error as Error;
      throw new Error(`could not set up IPVS: ${path} to ${value} (${why}): ${message}`);
    }
  }
}

function wanted({ strictARP }: Pick<IpvsConfig, 'strictARP'>, kernel: string): Sysctl[] {
  const vs = (name: string, value: string, why: string): Sysctl => ({
    path: `/proc/sys/net/ipv4/vs/${name}`,
    value,
    why,
  });
  const all = (name: string, value: string): Sysctl => ({
    path: `/proc/sys/net/ipv4/conf/all/${name}`,
    value,
    why: 'strictARP: addresses of Services are answered for by nobody but their owner',
  });
  return [
    vs('conntrack', '1', 'masquerade needs connection tracking of what IPVS forwards'),
    // From 5.9 on the kernel does right by itself; before, a client that reuses a port waits 1 s.
    ...(isBefore(kernel, 5, 9)
      ? [vs('conn_reuse_mode', '0', 'this kernel delays clients that reuse a port')]
      : []),
    vs('expire_nodest_conn', '1', 'connections to endpoints that are gone end at once'),
    vs('expire_quiescent_template', '1', 'session affinity leaves endpoints that drain'),
    { path: '/proc/sys/net/ipv4/ip_forward', value: '1', why: 'IPVS forwards to endpoints' },
    ...(strictARP ? [all('arp_ignore', '1'), all('arp_announce', '2')] : []),
  ];
}

function isBefore(kernel: string, major: number, minor: number): boolean {
  const [a = 0, b = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10));
  return a < major || (a === major && b < minor);
}
