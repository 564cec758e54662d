/** Reports health-check node ports to log and events. */
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
      log.warn(about, 'Could not listen on health-check node port; retrying');
      events.serviceHealthFailed(service, port, error);
      return;
    }
    const about = { service, port, family: event.family };
    if (event.kind === 'opened') log.debug(about, 'Opened health-check node port');
    else log.debug(about, 'Closed health-check node port');
  };
}
