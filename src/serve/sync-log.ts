/** Logs syncs. Every line about a Service names it. */
import type { AgentEvent, ConnectTimeEvent } from '../connect-time/maps/events.ts';
import type { Family } from '../net/address.ts';
import type { FamilyEvent, FilterEvent } from '../sync/events.ts';
import { type Notice, type NoticeRow, noticeTable } from '../sync/notices.ts';
import { type Logger, portFields } from './log.ts';
import { failureText, refusalText } from './refusal-text.ts';

/** What is logged of each kind of event. */
type Lines<E extends { readonly kind: string }> = {
  readonly [K in E['kind']]: (event: Extract<E, { readonly kind: K }>) => void;
};

function write<E extends { readonly kind: string }>(lines: Partial<Lines<E>>, event: E): void {
  const line = lines[event.kind as E['kind']] as ((event: E) => void) | undefined;
  line?.(event);
}

export function syncLog(log: Logger): (event: AgentEvent) => void {
  /** Families that wait for another process. */
  const waiting = new Set<Family>();
  const ofFamily = familyLines(log);
  return (event) => {
    if (event.kind === 'failed' && event.failures.some(({ isHeld }) => isHeld)) {
      logHeld(log, event, waiting.has(event.family) ? 'debug' : 'warn');
      waiting.add(event.family);
      return;
    }
    if (event.kind === 'done' && event.ok) waiting.delete(event.family);
    if ('family' in event) write(ofFamily, event);
    else logNotice(log, event);
  };
}

function logNotice(log: Logger, { kind, port, service, text }: Notice): void {
  const { level = 'warn', message }: NoticeRow = noticeTable[kind];
  const about = port === undefined ? { service } : portFields(port);
  log[level]({ ...about, ...(text !== '' && { err: text }) }, message);
}

/** The Service port that the kernel rejects. */
function rejection({ family, quarantined, retryMs }: FamilyEvent & { kind: 'quarantined' }) {
  const { attempts, failure, forwarding } = quarantined;
  const err = failureText(failure);
  return { ...portFields(forwarding.servicePort), family, err, attempts, retryMs };
}

/** The Service port that the kernel has accepted again. */
function recovery({ family, attempts, servicePort }: FamilyEvent & { kind: 'restored' }) {
  return { ...portFields(servicePort), family, attempts };
}

function familyLines(log: Logger): Lines<FamilyEvent | FilterEvent | ConnectTimeEvent> {
  const lines: Lines<FamilyEvent | FilterEvent | ConnectTimeEvent> = {
    queued: ({ family }) => log.trace({ family }, 'Sync queued'),
    committed: ({ family, purpose, forwardings, writes, bytes, applyMs, stages }) => {
      const times = { applyMs, sinceChangeMs: stages && stages.committedMs - stages.receivedMs };
      log.debug({ family, purpose, forwardings, writes, bytes, ...times }, 'Applied batch');
    },
    done: ({ family, purpose, ok, durationMs }) => {
      if (purpose === 'changes' || !ok)
        log.debug({ family, purpose, ok, durationMs }, 'Sync finished');
      else log.info({ family, purpose, durationMs }, 'Kernel state verified');
    },
    failed: (event) => logFailure(log, event),
    quarantined: (event) =>
      log.error(rejection(event), 'Kernel rejected Service port; continuing without it'),
    restored: (event) => log.info(recovery(event), 'Service port programmed again'),
    drift: (event) => logDrift(log, event),
    completed: ({ family, drift }) =>
      log.info({ family, ...drift }, 'Repaired kernel state after a rejected batch'),
    exposed: ({ family, tables: found }) => {
      const tables = found.map(({ table }) => table);
      if (tables.length === 0) log.info({ family }, 'No other program can change our table');
      else log.info({ family, tables }, 'Watching tables that other programs can change');
    },
    unwatched: ({ family, tables: found, error, retryMs }) => {
      const tables = found.map(({ table }) => table);
      const fields = { family, tables, err: error.message, retryMs };
      log.warn(fields, 'Failed to watch tables, comparing them now; retrying');
    },
    miscounted: ({ family, miscounts }) =>
      log.warn(
        { family, miscounts },
        'Element counts differ from the expected ones; starting a full comparison',
      ),
    'address-refused': (event) =>
      log.warn(
        { ...portFields(event.servicePort), family: event.family, err: refusalText(event) },
        'Service address belongs to this machine; serving only its ports there',
      ),
    'left-to-rules': ({ service, family, isLeft, frontends, endpoints }) => {
      const of = { service, family, frontends, endpoints };
      if (isLeft) log.warn(of, 'Connect-time map is full; Service is handled by packet rules only');
      else log.info(of, 'Service is in the connect-time map again');
    },
    'lease-late': ({ family, leftMs, reason: err }) =>
      log.warn({ family, leftMs, err }, 'Failed to renew the lease of connect-time programs'),
    'lease-ended': ({ family }) =>
      log.warn({ family }, 'Lease of connect-time programs expired; comparing maps to renew it'),
    'filter-rules': ({ of }) => write(ofFilter, of),
    'connect-time': ({ of }) => write(ofMaps, of),
    audited: ({ family, durationMs }) => log.debug({ family, durationMs }, 'Audit finished'),
  };
  const ofMaps = mapLines(log, lines.miscounted);
  const ofFilter = filterLines(log, lines);
  return lines;
}

/**
 * About the rules in table filter of iptables, which accept packets past a firewall of the host. If
 * they fail, Services are served all the same, and what serves is verified without them.
 */
function filterLines(
  log: Logger,
  { done: _, ...rules }: Lines<FamilyEvent>,
): Partial<Lines<FamilyEvent>> {
  return {
    ...rules,
    failed: ({ family, failures: [first], purpose, retryMs }) => {
      if (retryMs === undefined) return;
      log.warn(
        { family, purpose, err: first && failureText(first), retryMs },
        'Failed to update table filter; a host firewall may drop health checks',
      );
    },
    quarantined: (event) =>
      log.warn(
        rejection(event),
        'Kernel rejected rule for health checks in table filter; Service port is served',
      ),
    restored: (event) =>
      log.info(recovery(event), 'Rule for health checks is in table filter again'),
  };
}

/** About the maps of connect-time translation. If they fail, the rules serve. */
function mapLines(
  log: Logger,
  miscounted: Lines<FamilyEvent>['miscounted'],
): Partial<Lines<FamilyEvent>> {
  return {
    committed: ({ family, purpose, forwardings, writes, bytes, applyMs }) =>
      log.debug(
        { family, purpose, forwardings, writes, bytes, applyMs },
        'Updated connect-time maps',
      ),
    failed: ({ family, failures: [first], purpose, retryMs }) => {
      if (retryMs === undefined) return;
      log.warn(
        { family, purpose, err: first && failureText(first), retryMs },
        'Failed to update connect-time maps; packet rules handle what they lack',
      );
    },
    quarantined: (event) =>
      log.warn(
        rejection(event),
        'Kernel rejected Service port in connect-time maps; packet rules handle it',
      ),
    restored: (event) =>
      log.info(recovery(event), 'Service port is in the connect-time maps again'),
    drift: ({ family, drift, purpose }) => {
      if (purpose === 'start')
        log.debug({ family, ...drift }, 'Updated connect-time maps at start');
      else if (purpose === 'audit')
        log.warn(
          { family, ...drift },
          'Repaired connect-time maps that differ from what was programmed',
        );
    },
    miscounted,
  };
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
  const { family, purpose, failures, retryMs, isMoved = false } = event;
  const [first] = failures;
  const err = first && failureText(first);
  // An element may have expired before its deletion, which is not a problem.
  if (purpose === 'sweep')
    log.debug({ family, err, retryMs }, 'Could not delete expired elements; retrying');
  else if (purpose === 'deferred')
    log.warn({ family, err, retryMs }, 'Could not delete unused objects; retrying');
  else if (retryMs === undefined) log.debug({ family, purpose, err }, 'Kernel rejected batch');
  // The line about the repair names the program.
  else if (isMoved)
    log.debug(
      { family, purpose, err, retryMs },
      'Another program changed rules during a sync; reading kernel state again',
    );
  else
    log.error(
      { family, purpose, err, retryMs },
      'Sync failed; reading kernel state before retrying',
    );
}
