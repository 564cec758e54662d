/** The kernel settings of this machine that a configuration asks for. */
import type { Config, ModeName } from '../config/config.ts';
import { hasConntrack, type SettingChange, setConntrack } from './conntrack.ts';
import type { HostFiles } from './files.ts';
import { setIPVS } from './ipvs.ts';
import { hasLocalhostNodePorts, setRouteLocalnet } from './localhost-node-ports.ts';

/**
 * `report` is told of each write, and in mode ipvs also of what is right already. Throws an Error
 * of one line that says what to do about it.
 */
export function setSysctls(
  config: Config,
  mode: ModeName,
  files: HostFiles,
  report: (setting: SettingChange) => void,
): void {
  // Sockets need no connection tracking, and a kernel that has nothing else may have none.
  if (mode !== 'userspace' || hasConntrack(files)) setConntrack(config.conntrack, files, report);
  if (mode === 'ipvs') setIPVS(config.ipvs, files, report);
  if (mode === 'iptables' && hasLocalhostNodePorts(config, 'IPv4')) setRouteLocalnet(files, report);
}
