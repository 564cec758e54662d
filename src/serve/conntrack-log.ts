/** Logs changes of conntrack entries. */
import type { ConntrackEvent, ConntrackObserver } from '../conntrack/events.ts';
import type { Logger } from './log.ts';

export function conntrackLog(log: Logger): ConntrackObserver {
  return (event: ConntrackEvent) => {
    const { family, protocol } = event;
    if (event.kind === 'failed') {
      const { error, retryMs } = event;
      const reason = { family, protocol, err: error.message };
      if (retryMs === undefined)
        log.warn(reason, 'Could not clean up conntrack entries; leaving them');
      else log.warn({ ...reason, retryMs }, 'Could not clean up conntrack entries; retrying');
      return;
    }
    const { deleted, durationMs, examined } = event;
    const counts = { family, protocol, examined, deleted: deleted.length, durationMs };
    log.debug(counts, 'Conntrack cleanup done');
    if (!log.isLevelEnabled('trace')) return;
    for (let i = 0; i < deleted.length; i += 1) {
      log.trace({ family, entry: deleted.text(i) }, 'Deleted conntrack entry');
    }
  };
}
