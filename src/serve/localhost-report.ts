/** Reports node ports on loopback addresses to log, metrics and events. */
import type { LocalhostEvent } from '../modes/sockets/localhost.ts';
import { formatServicePortName } from '../state/types.ts';
import type { ClusterEvents } from './cluster-events.ts';
import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';

export function localhostReport(
  log: Logger,
  metrics: Pick<Metrics, 'localhostRefused'>,
  events: ClusterEvents,
): (event: LocalhostEvent) => void {
  return (event) => {
    const { family, servicePort } = event;
    const about = { family, servicePort: formatServicePortName(servicePort) };
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
