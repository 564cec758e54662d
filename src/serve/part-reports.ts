import type { ConntrackEvent, ConntrackObserver } from '../conntrack/events.ts';
import type { SysctlObserver } from '../host/sysctls.ts';
import type { LocalhostEvent } from '../modes/sockets/localhost.ts';
import type { ClusterEvents } from './cluster-events.ts';
import { type Logger, portFields } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { ServiceHealthEvent } from './service-health.ts';

/** Reports what parts of the program did to log, metrics and events. */

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

/** Logs changes of conntrack entries. */
export function conntrackLog(log: Logger): ConntrackObserver {
  /** Families and protocols of which the last cleanup failed. */
  const failed = new Set<string>();
  return (event: ConntrackEvent) => {
    const { family, protocol } = event;
    if (event.kind === 'failed') {
      const { error, retryMs } = event;
      const reason = { family, protocol, err: error.message };
      failed.add(`${family} ${protocol}`);
      if (retryMs === undefined)
        log.warn(reason, 'Could not clean up conntrack entries; leaving them');
      else log.warn({ ...reason, retryMs }, 'Could not clean up conntrack entries; retrying');
      return;
    }
    const { deleted, durationMs, examined } = event;
    const counts = { family, protocol, examined, deleted: deleted.length, durationMs };
    const level = failed.delete(`${family} ${protocol}`) ? 'info' : 'debug';
    log[level](counts, 'Conntrack cleanup done');
    if (!log.isLevelEnabled('trace')) return;
    for (let i = 0; i < deleted.length; i += 1) {
      log.trace({ family, entry: deleted.text(i) }, 'Deleted conntrack entry');
    }
  };
}

/** Reports node ports on loopback addresses to log, metrics and events. */
export function localhostReport(
  log: Logger,
  metrics: Pick<Metrics, 'localhostRefused'>,
  events: ClusterEvents,
): (event: LocalhostEvent) => void {
  return (event) => {
    const { family, servicePort } = event;
    const about = { ...portFields(servicePort), family };
    if (event.kind === 'restored') {
      log.info(about, 'Listening on the loopback address for node port');
      return;
    }
    const { isKnown, message, retryMs } = event;
    metrics.localhostRefused(family);
    if (isKnown) return;
    const words = 'Could not listen on the loopback address for node port; retrying';
    log.warn({ ...about, err: message, retryMs }, words);
    events.localhostRefused(servicePort, message);
  };
}

/** Reports health-check node ports to log and events. */
export function serviceHealthReport(
  log: Logger,
  events: ClusterEvents,
): (event: ServiceHealthEvent) => void {
  /** Services whose port could not be opened. */
  const failed = new Set<string>();
  return (event) => {
    const { service, port } = event;
    if (event.kind === 'failed') {
      const { error, retryMs } = event;
      const about = { service, port, err: error.message, retryMs };
      failed.add(service);
      log.warn(about, 'Could not listen on health-check node port; retrying');
      events.serviceHealthFailed(service, port, error);
      return;
    }
    const about = { service, port, family: event.family };
    const level = failed.delete(service) ? 'info' : 'debug';
    if (event.kind === 'opened') log[level](about, 'Opened health-check node port');
    else log.debug(about, 'Closed health-check node port');
  };
}
