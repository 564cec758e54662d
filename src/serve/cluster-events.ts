/**
 * Events that users see with `kubectl describe` (behaviour document 11.1), and kube-proxy's own.
 */
import type { AgentEvent } from '../connect-time/maps/events.ts';
import type { Fallback } from '../modes/index.ts';
import type { ClusterEvent, Regarding } from '../source/kubernetes/event-series.ts';
import {
  EventRecorder,
  type EventRecorderOptions,
  type EventSink,
} from '../source/kubernetes/events.ts';
import type { SourceProblem } from '../source/source.ts';
import { formatExcess } from '../state/budget.ts';
import { formatConflictForLoser } from '../state/conflict.ts';
import type { EndpointEvent } from '../state/detection.ts';
import { formatExternalIPNotice } from '../state/external-ips.ts';
import { formatServicePortName, type ServicePortName, serviceKey } from '../state/types.ts';
import type { Logger } from './log.ts';
import type { LifecycleMetrics } from './metrics.ts';
import { printable } from './printable.ts';
import { refusalText } from './refusal-text.ts';

interface ClusterEventsOptions {
  readonly sink: EventSink;
  readonly nodeName: string;
  /** metadata.uid of the Service `namespace/name`; empty if not known. */
  readonly uidOf: (service: string) => string;
}

type Node = Extract<Regarding, { kind: 'Node' }>;

type ConnectTimeReason =
  /** The configuration asks for it, and the kernel does not support it. */
  | 'ConnectTimeUnavailable'
  /** Programs of an earlier process translate connections to endpoints that may have gone. */
  | 'ConnectTimeStale'
  /** The configuration excludes pods from it, and pods cannot be watched. */
  | 'ExcludedPodsUnknown';

/** Fields of a Service that hold addresses. */
const addressField = /^(spec\.(clusterIPs?|externalIPs|loadBalancerSourceRanges)|status\.)/;

export class ClusterEvents {
  readonly #options: ClusterEventsOptions;
  readonly #node: Node;

  constructor(options: ClusterEventsOptions) {
    this.#options = options;
    this.#node = { kind: 'Node', name: options.nodeName };
  }

  starting(): void {
    this.#aboutNode('Normal', 'Starting', '');
  }

  /** A server could not listen on its address. */
  serverFailed(server: 'healthz' | 'metrics', error: Error): void {
    const what = server === 'healthz' ? 'ProxierHealthcheck' : 'MetricServer';
    this.#aboutNode('Warning', `FailedToStart${what}`, error.message);
  }

  /** The health check node port of the Service does not answer load balancers. */
  serviceHealthFailed(service: string, port: number, { message }: Error): void {
    const what = `failed to start healthcheck ${JSON.stringify(service)} on port ${port}`;
    const note = `node ${this.#options.nodeName} ${what}: ${message}`;
    this.#aboutService(service, 'FailedToStartServiceHealthcheck', 'Listen', note);
  }

  /** A node port of the Service does not answer on a loopback address. */
  localhostRefused(servicePort: ServicePortName, message: string): void {
    const note = `node ${this.#options.nodeName} could not ${message}`;
    this.#aboutService(serviceKey(servicePort), 'FailedToListenOnLocalhost', 'Listen', note);
  }

  /** An endpoint of the Service gets no new connections from this node, or gets them again. */
  endpointHealth({ change, endpoint, service }: EndpointEvent): void {
    const { nodeName } = this.#options;
    if (change.kind === 'ejected') {
      const what = `endpoint ${endpoint} does not answer and gets no new connections`;
      this.#aboutService(service, 'EndpointEjected', 'Balance', `node ${nodeName}: ${what}`);
      return;
    }
    const why = change.because === 'answer' ? 'answers' : 'is tried';
    const note = `node ${nodeName}: endpoint ${endpoint} ${why} again`;
    this.#aboutService(service, 'EndpointReturned', 'Balance', note, 'Normal');
  }

  fellBack({ from, to, reason }: Fallback): void {
    this.#aboutNode('Warning', 'ProxyModeFallback', `mode ${from} ${reason}; mode ${to} is next`);
  }

  connectTime(reason: ConnectTimeReason, note: string): void {
    this.#aboutNode('Warning', reason, note);
  }

  /** New connections will be refused soon, or are refused. */
  conntrackFull(note: string): void {
    const about = { action: 'TrackConnections', regarding: this.#node } as const;
    this.#record({ type: 'Warning', reason: 'ConntrackNearlyFull', ...about, note });
  }

  /** What kube-proxy left was removed or kept. */
  takeover(type: ClusterEvent['type'], reason: string, note: string): void {
    this.#record({ type, reason, action: 'TakeOver', regarding: this.#node, note });
  }

  /** Creates events for Services only: users do not look for events of other objects. */
  sourceProblem({ subject, field = '', reason }: SourceProblem): void {
    const service = /^Service (\S+\/\S+)$/.exec(subject)?.[1];
    if (service === undefined) return;
    const what = addressField.test(field) ? 'AddressRejected' : 'FieldRejected';
    this.#aboutService(service, what, 'Read', field === '' ? reason : `${field}: ${reason}`);
  }

  /** Reports about an object were left out. Creates an event only for a Service. */
  leftOut(subject: string, reason: string, count: number): void {
    const service = /^(?:Service )?([^/\s]+\/[^/\s]+)$/.exec(subject)?.[1];
    if (service === undefined) return;
    const note = `node ${this.#options.nodeName}: ${count} more of "${reason}" were left out`;
    this.#aboutService(service, 'ReportsLeftOut', 'Report', note);
  }

  observe(event: AgentEvent): void {
    switch (event.kind) {
      case 'conflict': {
        const note = formatConflictForLoser(event.conflict);
        this.#aboutService(serviceKey(event.conflict.loser), 'FrontendConflict', 'Sync', note);
        return;
      }
      case 'unresolvable':
        this.#aboutService(event.service, 'NotUnderstood', 'Sync', event.error.message);
        return;
      case 'external-ip': {
        const { notice } = event;
        const reason = notice.because === 'node' ? 'ExternalIPOfNode' : 'ExternalIPNotAllowed';
        const note = `node ${this.#options.nodeName}: ${formatExternalIPNotice(notice)}`;
        this.#aboutService(notice.service, reason, 'Sync', note);
        return;
      }
      case 'over-limit':
        this.#aboutService(event.service, 'OverLimit', 'Sync', formatExcess(event.excess));
        return;
      case 'balance-not-done': {
        const note = `node ${this.#options.nodeName}: ${event.reason}`;
        this.#aboutService(event.service, 'BalanceNotDone', 'Sync', note);
        return;
      }
      case 'quarantined': {
        const { forwarding, failure } = event.quarantined;
        const { servicePort } = forwarding;
        const port = formatServicePortName(servicePort);
        const note = `node ${this.#options.nodeName} refuses ${port} of ${event.family}: ${failure.message}`;
        this.#aboutService(serviceKey(servicePort), 'SetAside', 'Sync', note);
        return;
      }
      case 'address-refused': {
        const note = `node ${this.#options.nodeName}: ${refusalText(event)}`;
        this.#aboutService(serviceKey(event.servicePort), 'AddressRefused', 'Sync', note);
        return;
      }
      default:
        return;
    }
  }

  #aboutNode(type: ClusterEvent['type'], reason: string, note: string): void {
    this.#record({ type, reason, action: 'StartKubeProxy', regarding: this.#node, note });
  }

  #aboutService(
    service: string,
    reason: string,
    action: string,
    note: string,
    type: ClusterEvent['type'] = 'Warning',
  ): void {
    const [namespace = '', name = ''] = service.split('/');
    const uid = this.#options.uidOf(service);
    const regarding = { kind: 'Service', namespace, name, uid } as const;
    this.#record({ type, reason, action, regarding, note });
  }

  /** Notes quote what tenants write, and not all who show events to people escape it. */
  #record(event: ClusterEvent): void {
    this.#options.sink.record({ ...event, note: printable(event.note) });
  }
}

interface RecorderOptions {
  readonly log: Logger;
  readonly nodeName: string;
  /** Undefined = create no events. */
  readonly openEvents?: EventRecorderOptions['open'];
}

/** Sends events to the API server, if enabled. */
export function makeRecorder(
  { log, nodeName, openEvents }: RecorderOptions,
  metrics: LifecycleMetrics,
): EventRecorder | undefined {
  if (openEvents === undefined) return undefined;
  return new EventRecorder({
    open: openEvents,
    nodeName,
    dropped: (reason) => metrics.eventsDropped.inc({ reason }),
    problem: (error) => log.warn({ err: error.message }, 'Could not send Events to the API server'),
  });
}
