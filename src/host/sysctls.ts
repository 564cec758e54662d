/** The kernel settings of this machine that a configuration asks for. */
import type { Config, ModeName } from '../config/config.ts';
import { type SettingChange, setConntrack } from './conntrack.ts';
import type { HostFiles } from './files.ts';
import { setIPVS } from './ipvs.ts';
import { hasLocalhostNodePorts, setRouteLocalnet } from './localhost-node-ports.ts';

/** `changed` is told of each write. Throws an Error of one line that says what to do about it. */
export function setSysctls(
  config: Config,
  mode: ModeName,
  files: HostFiles,
  changed: (change: SettingChange) => void,
): void {
  setConntrack(config.conntrack, files, changed);
  if (mode === 'ipvs') setIPVS(config.ipvs, files, changed);
  if (mode === 'iptables' && hasLocalhostNodePorts(config, 'IPv4'))
    setRouteLocalnet(files, changed);
}
