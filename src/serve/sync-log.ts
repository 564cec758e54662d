/** Logs syncs. Every line about a Service names it. */
import type { Family } from '../net/address.ts';
import { formatExcess } from '../state/budget.ts';
import { formatConflict } from '../state/conflict.ts';
import { formatExternalIPNotice } from '../state/external-ips.ts';
import type { ServicePortName } from '../state/types.ts';
import type { FamilyEvent, Observer, ServiceEvent, SyncEvent } from '../sync/events.ts';
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
      log.warn({ ...named(loser), err: formatConflict(event.conflict) }, 'Frontend is taken');
      return;
    }
    case 'unresolvable': {
      const { service, error } = event;
      log.error({ service, err: error.message }, 'Service is not understood and stays as it was');
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
      log.warn({ service, err: formatExcess(excess) }, 'Service is too large, is served in part');
      return;
    }
  }
}

function logFamily(log: Logger, event: FamilyEvent): void {
  const { family } = event;
  switch (event.kind) {
    case 'queued':
      log.trace({ family }, 'Sync is due');
      return;
    case 'committed': {
      const { purpose, forwardings, writes, bytes, applyMs, stages } = event;
      const times = { applyMs, sinceChangeMs: stages && stages.committedMs - stages.receivedMs };
      log.debug({ family, purpose, forwardings, writes, bytes, ...times }, 'Kernel took a batch');
      return;
    }
    case 'done': {
      const { purpose, ok, durationMs } = event;
      if (purpose === 'changes' || !ok) log.debug({ family, purpose, ok, durationMs }, 'Sync over');
      else log.info({ family, purpose, durationMs }, 'Kernel is as wanted');
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
      log.error({ ...of, attempts, retryMs }, 'Service is refused by the kernel, goes on without');
      return;
    }
    case 'restored': {
      const { attempts, servicePort } = event;
      log.info({ ...named(servicePort), family, attempts }, 'Service is in force again');
      return;
    }
    case 'drift': {
      logDrift(log, event);
      return;
    }
    case 'exposed': {
      const tables = event.tables.map(({ table }) => table);
      if (tables.length === 0) log.info({ family }, 'Nobody else can change our table');
      else log.info({ family, tables }, 'Others can change these tables, and are watched');
      return;
    }
    case 'miscounted': {
      const { miscounts } = event;
      log.warn({ family, miscounts }, 'Kernel counts other numbers of elements, is compared');
      return;
    }
    case 'address-refused': {
      const err = refusalText(event);
      log.warn({ ...named(event.servicePort), family, err }, 'Address is refused');
      return;
    }
    case 'left-to-rules': {
      const { service, isLeft, frontends, endpoints } = event;
      const of = { service, family, frontends, endpoints };
      if (isLeft) log.warn(of, 'Service has no room beside the rules, is left to them');
      else log.info(of, 'Service has room beside the rules again');
      return;
    }
    case 'audited':
      log.debug({ family, durationMs: event.durationMs }, 'Audit over');
      return;
  }
}

function logDrift(log: Logger, event: FamilyEvent & { kind: 'drift' }): void {
  const { by, family, purpose, drift, writers } = event;
  if (purpose === 'start') {
    const { missing: added, wrong: changed, unwanted: removed } = drift;
    log.info({ family, added, changed, removed }, 'Kernel is brought up to date');
    return;
  }
  if (writers === 'others') {
    log.warn({ family, purpose, ...drift, ...by }, 'Kernel was changed by others, is repaired');
  } else if (purpose === 'recovery' && writers === 'only us') {
    // This includes what the refused batch should have changed.
    log.info({ family, ...drift }, 'Kernel differed after the failure');
  } else if (writers === 'only us') {
    const message = 'Kernel is not as it was written, though nobody else wrote, is repaired';
    log.error({ family, purpose, ...drift }, message);
  } else log.warn({ family, purpose, ...drift }, 'Kernel is not as it was written, is repaired');
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
  // An element may have expired before it was swept, which is no problem.
  if (purpose === 'sweep') log.debug({ family, err, retryMs }, 'Sweep is tried again');
  else if (purpose === 'deferred') log.warn({ family, err, retryMs }, 'Cleanup is tried again');
  else if (retryMs === undefined) log.debug({ family, purpose, err }, 'Batch was refused');
  else log.error({ family, purpose, err, retryMs }, 'Sync failed, the kernel is read again');
}

function named({ namespace, name, port, protocol }: ServicePortName) {
  return { service: `${namespace}/${name}`, port: port === '' ? protocol : `${port}/${protocol}` };
}
