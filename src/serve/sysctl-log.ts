/** Logs sysctls. */
import type { SysctlObserver } from '../host/sysctls.ts';
import type { Logger } from './log.ts';

/** `tolerant`: a sysctl that cannot be written is logged, and does not end the process. */
export function sysctlLog(log: Logger, how: 'tolerant' | 'strict'): SysctlObserver {
  const set: SysctlObserver['set'] = (setting) => {
    log.info({ ...setting }, setting.from === setting.to ? 'Sysctl already set' : 'Set sysctl');
  };
  if (how === 'strict') return { set };
  const denied: SysctlObserver['denied'] = ({ path, to, error }) => {
    log.warn({ path, to, err: error.message }, 'Could not set sysctl; leaving it unchanged');
  };
  return { set, denied };
}
