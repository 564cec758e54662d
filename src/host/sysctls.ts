/** The kernel settings of this machine that a configuration asks for. */
import type { Config, ModeName } from '../config/config.ts';
import { hasConntrack, type SettingChange, setConntrack } from './conntrack.ts';
import type { HostFiles } from './files.ts';
import { setIPVS } from './ipvs.ts';
import { hasLocalhostNodePorts, setRouteLocalnet } from './localhost-node-ports.ts';

/** A sysctl that this process may not write: a /proc that is read-only, a missing capability. */
export interface SettingDenied {
  readonly path: string;
  readonly to: string;
  readonly error: Error;
}

export interface SysctlObserver {
  /** Told of each write, and in mode ipvs also of what is right already. */
  readonly set: (setting: SettingChange) => void;
  /** Told of what stays as it is; without it, that is an error. */
  readonly denied?: (setting: SettingDenied) => void;
}

/** Throws an Error of one line that says what to do about it. */
export function setSysctls(
  config: Config,
  mode: ModeName,
  host: HostFiles,
  { set, denied }: SysctlObserver,
): void {
  const stay = new Set<string>();
  const files = denied === undefined ? host : tolerant(host, denied, stay);
  const report = (setting: SettingChange): void => {
    if (!stay.has(setting.path)) set(setting);
  };
  // Sockets need no connection tracking, and a kernel that has nothing else may have none.
  if (mode !== 'userspace' || hasConntrack(files)) setConntrack(config.conntrack, files, report);
  if (mode === 'ipvs') setIPVS(config.ipvs, files, report);
  if (mode === 'iptables' && hasLocalhostNodePorts(config, 'IPv4')) setRouteLocalnet(files, report);
}

/** Writes what it may, and adds to `stay` what it may not. */
function tolerant(
  files: HostFiles,
  denied: NonNullable<SysctlObserver['denied']>,
  stay: Set<string>,
): HostFiles {
  const write = (path: string, to: string): void => {
    try {
      files.write(path, to);
    } catch (error) {
      if (!isDenial(error)) throw error;
      stay.add(path);
      denied({ path, to, error });
    }
  };
  return { read: files.read, write };
}

function isDenial(error: unknown): error is Error {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return ['EROFS', 'EACCES', 'EPERM'].includes(code);
}
