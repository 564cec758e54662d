/** Logs syncs. Every line about a Service names it. */
import type { Family } from '../net/address.ts';
import { formatExcess } from '../state/budget.ts';
import { formatConflict } from '../state/conflict.ts';
import { formatExternalIPNotice } from '../state/external-ips.ts';
import type { ServicePortName } from '../state/types.ts';
import type { FamilyEvent, MapEvent, Observer, ServiceEvent, SyncEvent } from '../sync/events.ts';
import type { Logger } from './log.ts';
import { failureText, refusalText } from './refusal-text.ts';

export function syncLog(log: Logger): Observer {
  /** Families that wait for another process. */
  const waiting = new Set<Family>();
  return (event: SyncEvent) => {
    if (event.kind === 'failed' && event.failures.some(({ isHeld }) => isHeld)) {
      logHeld(log, event, waiting.has(event.family) ? 'debug' : 'warn');
      waiting.add(event.family);
      return;
    }
    if (event.kind === 'done' && event.ok) waiting.delete(event.family);
    if ('family' in event) logFamily(log, event);
    else logService(log, event);
  };
}

function logService(log: Logger, event: ServiceEvent): void {
  switch (event.kind) {
    case 'conflict': {
      const { loser } = event.conflict;
      log.warn(
        { ...named(loser), err: formatConflict(event.conflict) },
        'Frontend is already in use by another Service',
      );
      return;
    }
    case 'unresolvable': {
      const { service, error } = event;
      log.error(
        { service, err: error.message },
        'Could not process Service; keeping its previous rules',
      );
      return;
    }
    case 'external-ip': {
      const { notice } = event;
      const of = { service: notice.service, err: formatExternalIPNotice(notice) };
      if (notice.because === 'node') log.warn(of, 'External IP is an address of this node');
      else log.warn(of, 'External IP is not allowed');
      return;
    }
    case 'over-limit': {
      const { service, excess } = event;
      log.warn(
        { service, err: formatExcess(excess) },
        'Service exceeds a limit; serving part of it',
      );
      return;
    }
    case 'balance-not-done': {
      const { service, reason } = event;
      log.warn({ service, err: reason }, 'Balance of Service cannot be done here');
      return;
    }
  }
}

function logFamily(log: Logger, event: FamilyEvent): void {
  const { family } = event;
  switch (event.kind) {
    case 'queued':
      log.trace({ family }, 'Sync queued');
      return;
    case 'committed': {
      const { purpose, forwardings, writes, bytes, applyMs, stages } = event;
      const times = { applyMs, sinceChangeMs: stages && stages.committedMs - stages.receivedMs };
      log.debug({ family, purpose, forwardings, writes, bytes, ...times }, 'Applied batch');
      return;
    }
    case 'done': {
      const { purpose, ok, durationMs } = event;
      if (purpose === 'changes' || !ok)
        log.debug({ family, purpose, ok, durationMs }, 'Sync finished');
      else log.info({ family, purpose, durationMs }, 'Kernel state verified');
      return;
    }
    case 'failed':
      logFailure(log, event);
      return;
    case 'quarantined': {
      const { quarantined, retryMs } = event;
      const { attempts, forwarding } = quarantined;
      const of = {
        ...named(forwarding.servicePort),
        family,
        err: failureText(quarantined.failure),
      };
      log.error(
        { ...of, attempts, retryMs },
        'Kernel rejected Service port; continuing without it',
      );
      return;
    }
    case 'restored': {
      const { attempts, servicePort } = event;
      log.info({ ...named(servicePort), family, attempts }, 'Service port programmed again');
      return;
    }
    case 'drift': {
      logDrift(log, event);
      return;
    }
    case 'exposed': {
      const tables = event.tables.map(({ table }) => table);
      if (tables.length === 0) log.info({ family }, 'No other program can change our table');
      else log.info({ family, tables }, 'Watching tables that other programs can change');
      return;
    }
    case 'unwatched': {
      const tables = event.tables.map(({ table }) => table);
      const { error, retryMs } = event;
      const fields = { family, tables, err: error.message, retryMs };
      log.warn(fields, 'Failed to watch tables, comparing them now; retrying');
      return;
    }
    case 'miscounted': {
      const { miscounts } = event;
      log.warn(
        { family, miscounts },
        'Element counts differ from the expected ones; starting a full comparison',
      );
      return;
    }
    case 'address-refused': {
      const err = refusalText(event);
      log.warn(
        { ...named(event.servicePort), family, err },
        'Service address belongs to this machine; serving only its ports there',
      );
      return;
    }
    case 'left-to-rules': {
      const { service, isContested, isLeft, frontends, endpoints } = event;
      const of = { service, family, frontends, endpoints };
      if (isContested) {
        const words =
          'Pool id is in use by another Service; Service is handled by packet rules only';
        log.warn({ service, family }, words);
      } else if (isLeft)
        log.warn(of, 'Connect-time map is full; Service is handled by packet rules only');
      else log.info(of, 'Service is in the connect-time map again');
      return;
    }
    case 'lease-late': {
      const { leftMs, reason: err } = event;
      log.warn({ family, leftMs, err }, 'Failed to renew the lease of connect-time programs');
      return;
    }
    case 'lease-ended':
      log.warn({ family }, 'Lease of connect-time programs expired; comparing maps to renew it');
      return;
    case 'connect-time':
      logMaps(log, event.of);
      return;
    case 'audited':
      log.debug({ family, durationMs: event.durationMs }, 'Audit finished');
      return;
  }
}

/** About the maps of connect-time translation. If they fail, the rules serve. */
function logMaps(log: Logger, event: MapEvent): void {
  const { family } = event;
  switch (event.kind) {
    case 'committed': {
      const { applyMs, bytes, forwardings, purpose, writes } = event;
      log.debug(
        { family, purpose, forwardings, writes, bytes, applyMs },
        'Updated connect-time maps',
      );
      return;
    }
    case 'failed': {
      const { failures, purpose, retryMs } = event;
      const err = failures[0] && failureText(failures[0]);
      if (retryMs === undefined) return;
      log.warn(
        { family, purpose, err, retryMs },
        'Failed to update connect-time maps; packet rules handle what they lack',
      );
      return;
    }
    case 'quarantined': {
      const { quarantined, retryMs } = event;
      const { attempts, failure, forwarding } = quarantined;
      log.warn(
        { ...named(forwarding.servicePort), family, err: failureText(failure), attempts, retryMs },
        'Kernel rejected Service port in connect-time maps; packet rules handle it',
      );
      return;
    }
    case 'restored': {
      const { attempts, servicePort } = event;
      log.info(
        { ...named(servicePort), family, attempts },
        'Service port is in the connect-time maps again',
      );
      return;
    }
    case 'drift': {
      const { drift, purpose } = event;
      if (purpose === 'start')
        log.debug({ family, ...drift }, 'Updated connect-time maps at start');
      else if (purpose === 'audit')
        log.warn(
          { family, ...drift },
          'Repaired connect-time maps that differ from what was programmed',
        );
      return;
    }
    case 'miscounted':
      logFamily(log, event);
      return;
    default:
      return;
  }
}

function logDrift(log: Logger, event: FamilyEvent & { kind: 'drift' }): void {
  const { by, family, purpose, drift, writers } = event;
  if (purpose === 'start') {
    const { missing: added, wrong: changed, unwanted: removed } = drift;
    log.info({ family, added, changed, removed }, 'Updated kernel state at start');
    return;
  }
  if (writers === 'others') {
    log.warn({ family, purpose, ...drift, ...by }, 'Repaired rules that another program changed');
  } else if (purpose === 'recovery' && writers === 'only us') {
    // This includes changes that the refused batch was meant to make.
    log.info({ family, ...drift }, 'Repaired kernel state after a rejected batch');
  } else if (writers === 'only us') {
    const message = 'Repaired rules that differ although no other program changed them';
    log.error({ family, purpose, ...drift }, message);
  } else
    log.warn({ family, purpose, ...drift }, 'Repaired rules that differ from what was programmed');
}

function logHeld(
  log: Logger,
  { family, failures, retryMs }: FamilyEvent & { kind: 'failed' },
  level: 'warn' | 'debug',
): void {
  log[level](
    { family, err: failureText(failures[0]!), retryMs },
    'Waiting for another process to end',
  );
}

function logFailure(log: Logger, event: FamilyEvent & { kind: 'failed' }): void {
  const { family, purpose, failures, retryMs } = event;
  const [first] = failures;
  const err = first && failureText(first);
  // An element may have expired before its deletion, which is not a problem.
  if (purpose === 'sweep')
    log.debug({ family, err, retryMs }, 'Could not delete expired elements; retrying');
  else if (purpose === 'deferred')
    log.warn({ family, err, retryMs }, 'Could not delete unused objects; retrying');
  else if (retryMs === undefined) log.debug({ family, purpose, err }, 'Kernel rejected batch');
  else
    log.error(
      { family, purpose, err, retryMs },
      'Sync failed; reading kernel state before retrying',
    );
}

function named({ namespace, name, port, protocol }: ServicePortName) {
  return { service: `${namespace}/${name}`, port: port === '' ? protocol : `${port}/${protocol}` };
}
