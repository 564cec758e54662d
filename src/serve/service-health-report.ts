/** Tells log and users about health-check node ports. */
import type { ClusterEvents } from './cluster-events.ts';
import type { Logger } from './log.ts';
import type { ServiceHealthEvent } from './service-health.ts';

export function serviceHealthReport(
  log: Logger,
  events: ClusterEvents,
): (event: ServiceHealthEvent) => void {
  return (event) => {
    const { service, port } = event;
    if (event.kind === 'failed') {
      const { error, retryMs } = event;
      const about = { service, port, err: error.message, retryMs };
      log.warn(about, 'Health-check node port cannot be listened on, it is tried again');
      events.serviceHealthFailed(service, port, error);
      return;
    }
    const about = { service, port, family: event.family };
    log.debug(about, `Health-check node port is ${event.kind === 'opened' ? 'open' : 'closed'}`);
  };
}
