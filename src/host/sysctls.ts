/** The kernel settings of this machine that a configuration asks for. */
import { release } from 'node:os';
import type { Config } from '../config/config.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { Sysctl } from '../modes/sysctl.ts';
import { conntrackSysctls, hasConntrack, isLimitGiven } from './conntrack.ts';
import type { HostFiles, ReadableFiles } from './files.ts';
import { hasLocalhostNodePorts } from './localhost-node-ports.ts';

/** A sysctl that the configuration asks for. When both values are the same, nothing was written. */
export interface SettingChange {
  readonly path: string;
  /** Undefined when it could not be read. */
  readonly from: string | undefined;
  readonly to: string;
}

/** A sysctl that this process may not write: a /proc that is read-only, a missing capability. */
interface SettingDenied {
  readonly path: string;
  readonly to: string;
  readonly error: Error;
}

export interface SysctlObserver {
  /** Called for each write, and for some settings even if they are right already. */
  readonly set: (setting: SettingChange) => void;
  /** Called for settings that could not be written. Without it, that is an error. */
  readonly denied?: (setting: SettingDenied) => void;
}

/** All that the configuration asks for in this mode. */
export function sysctlsOf(
  config: Config,
  mode: ModeFacts,
  host: ReadableFiles,
  kernel = release(),
): readonly Sysctl[] {
  const { strictARP } = config.ipvs;
  const limit = isLimitGiven(config) ? 'exact' : 'at least';
  const localhostNodePorts = hasLocalhostNodePorts(config, 'IPv4');
  return [
    // A mode with sockets needs no connection tracking, and its kernel may have none.
    ...(mode.translates || hasConntrack(host)
      ? conntrackSysctls(config.conntrack, host, limit)
      : []),
    ...(mode.sysctls?.({ strictARP, localhostNodePorts, kernel }) ?? []),
  ];
}

/**
 * Writes the settings that differ.
 *
 * @throws Error of one line that says what to do about it.
 */
export function setSysctls(
  sysctls: readonly Sysctl[],
  host: HostFiles,
  observer: SysctlObserver,
): void {
  for (const sysctl of sysctls) setSysctl(sysctl, host, observer);
}

function setSysctl(sysctl: Sysctl, host: HostFiles, { set, denied }: SysctlObserver): void {
  const { path, value: to, purpose, advice } = sysctl;
  try {
    const from = host.read(path);
    const isRight = from === to || (sysctl.atLeast && Number(from) >= Number(to));
    if (!isRight) host.write(path, to);
    if (!isRight || sysctl.reportedWhenRight) set({ path, from, to });
  } catch (error) {
    const { message } = error as Error;
    if (denied === undefined || !isTolerable(error)) {
      throw new Error(`could not ${purpose}: ${path} to ${to}: ${message} (${advice})`);
    }
    denied({ path, to, error });
  }
}

/** It may not be written, or the kernel does not have it (yet). */
function isTolerable(error: unknown): error is Error {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return ['EROFS', 'EACCES', 'EPERM', 'ENOENT'].includes(code);
}
