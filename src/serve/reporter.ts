/** Reports problems of Services and other objects to log and events, within limits. */
import type { AgentEvent } from '../connect-time/maps/events.ts';
import type { NoRoom } from '../modes/sockets/bounds.ts';
import { formatPortName } from '../net/protocol.ts';
import type { SourceProblem } from '../source/source.ts';
import { formatFrontend } from '../state/conflict.ts';
import type { EndpointEvent } from '../state/detection.ts';
import { serviceKey } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import type { ClusterEvents } from './cluster-events.ts';
import type { Logger } from './log.ts';
import { serviceHealthReport } from './part-reports.ts';
import { ReportLimiter } from './report-limiter.ts';
import type { ServiceHealthEvent } from './service-health.ts';
import { syncLog } from './sync-log.ts';

interface ReporterOptions {
  readonly log: Logger;
  readonly events: ClusterEvents;
  readonly clock: Pick<Clock, 'after'>;
  /** Receives the number of reports that were left out. */
  readonly leftOut: (count: number) => void;
}

export class Reporter {
  readonly #options: ReporterOptions;
  readonly #limiter: ReportLimiter;
  readonly #logSync: (event: AgentEvent) => void;
  readonly #reportServiceHealth: (event: ServiceHealthEvent) => void;

  constructor(options: ReporterOptions) {
    const { clock, events, log } = options;
    this.#options = options;
    this.#limiter = new ReportLimiter({ clock, leftOut: (...what) => this.#leftOut(...what) });
    this.#logSync = syncLog(log);
    this.#reportServiceHealth = serviceHealthReport(log, events);
  }

  sync(event: AgentEvent): void {
    const service = serviceOf(event);
    if (service !== undefined && !this.#limiter.admits(service, kindOf(event))) return;
    this.#options.events.observe(event);
    this.#logSync(event);
  }

  problem(problem: SourceProblem): void {
    const { corrected, subject, field, reason } = problem;
    // The index in a list does not change the kind of a problem.
    const kind = `source ${field?.replaceAll(/\[\d+\]/g, '[]') ?? ''}`.trimEnd();
    if (!this.#limiter.admits(subject, kind)) return;
    this.#options.events.sourceProblem(problem);
    const { log } = this.#options;
    const where = field === undefined ? {} : { field };
    if (corrected === undefined)
      log.warn({ subject, ...where, err: reason }, 'Error reading objects');
    else log.warn({ subject, corrected }, 'Corrected objects that had changed without an event');
  }

  serviceHealth(event: ServiceHealthEvent): void {
    const kind = `health-check port ${event.kind}`;
    if (this.#limiter.admits(event.service, kind)) this.#reportServiceHealth(event);
  }

  /**
   * Logs it. There is no event, not even of reports that were left out: whoever wrote the
   * EndpointSlice could read there what this node reaches at addresses that are not his.
   */
  endpointHealth(event: EndpointEvent): void {
    const { change, endpoint, family, port, protocol, service } = event;
    if (!this.#limiter.admits(`endpoints ${service}`, `endpoint ${change.kind}`)) return;
    const about = { service, port: formatPortName(port, protocol), family, endpoint };
    const { log } = this.#options;
    if (change.kind === 'ejected') {
      const { unanswered } = change;
      log.warn({ ...about, unanswered }, 'Endpoint does not answer; it gets no new connections');
    } else {
      const { because, outMs } = change;
      log.info({ ...about, because, outMs }, 'Endpoint gets new connections again');
    }
  }

  /** A socket's client. */
  noRoom({ bound, client, frontend, max, of }: NoRoom): void {
    const at = formatFrontend(frontend.protocol, frontend);
    if (!this.#limiter.admits(at, `no room: ${of} ${bound}`)) return;
    const about = { frontend: at, client, bound };
    const { log } = this.#options;
    if (of === 'descriptors') {
      const fields = { ...about, descriptorsMax: max };
      log.warn(fields, 'Refused client of a socket: too many file descriptors');
    } else {
      const fields = { ...about, bytesMax: max };
      log.warn(fields, 'Reset connection of a socket: too many bytes wait in buffers');
    }
  }

  /** Reports the number left out so far. */
  close(): void {
    this.#limiter.close();
  }

  #leftOut(subject: string, reason: string, count: number): void {
    const { events, leftOut, log } = this.#options;
    log.warn({ subject, reason, count }, 'Suppressed repeated reports');
    events.leftOut(subject, reason);
    leftOut(count);
  }
}

/**
 * The Service (`namespace/name`) that an event is about; undefined = the event is about the node.
 */
function serviceOf(event: AgentEvent): string | undefined {
  switch (event.kind) {
    case 'left-to-rules':
      return event.service;
    case 'quarantined':
      return serviceKey(event.quarantined.forwarding.servicePort);
    case 'restored':
    case 'address-refused':
      return serviceKey(event.servicePort);
    case 'connect-time':
    case 'filter-rules':
      return serviceOf(event.of);
    default:
      return 'family' in event ? undefined : event.service;
  }
}

function kindOf(event: AgentEvent): string {
  return event.kind === 'connect-time' || event.kind === 'filter-rules'
    ? `${event.kind} ${event.of.kind}`
    : event.kind;
}
