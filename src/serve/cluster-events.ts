/**
 * Events that users see with `kubectl describe` (behaviour document 11.1), and kube-proxy's own.
 */
import type { AgentEvent, ConnectTimeEvents } from '../connect-time/maps/events.ts';
import type { ClusterEvent, Regarding } from '../source/kubernetes/event-queue.ts';
import {
  EventRecorder,
  type EventRecorderOptions,
  type EventSink,
} from '../source/kubernetes/events.ts';
import type { SourceProblem } from '../source/source.ts';
import { formatServicePortName, type ServicePortName, serviceKey } from '../state/types.ts';
import { type Notice, type NoticeRow, noticeTable } from '../sync/notices.ts';
import type { Clock } from '../time/clock.ts';
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

/**
 * Reasons of events about Services. `cluster`: the note is true of every node with the same
 * configuration. `node`: it holds on this node and perhaps on others, and the event names the node
 * that reported it first.
 */
const serviceReasons = {
  FailedToStartServiceHealthcheck: { action: 'Listen', scope: 'node' },
  FailedToListenOnLocalhost: { action: 'Listen', scope: 'node' },
  AddressRejected: { action: 'Read', scope: 'cluster' },
  FieldRejected: { action: 'Read', scope: 'cluster' },
  ReportsLeftOut: { action: 'Report', scope: 'node' },
  SetAside: { action: 'Sync', scope: 'node' },
  AddressRefused: { action: 'Sync', scope: 'node' },
} as const;

/** How an event about a Service is recorded. */
interface About {
  readonly reason: string;
  readonly action: string;
  readonly scope: 'cluster' | 'node';
}

/** Fields of a Service that hold addresses. */
const addressField = /^(spec\.(clusterIPs?|externalIPs|loadBalancerSourceRanges)|status\.)/;

/** Events about the node; where no action is given, it is `StartKubeProxy`. */
const nodeReasons = {
  Starting: { type: 'Normal' },
  FailedToStartProxierHealthcheck: { type: 'Warning' },
  FailedToStartMetricServer: { type: 'Warning' },
  FailedToStartReadServer: { type: 'Warning' },
  /** A mode cannot run here, and another one is next. */
  ProxyModeFallback: { type: 'Warning' },
  ConnectTimeUnavailable: { type: 'Warning' },
  ConnectTimeStale: { type: 'Warning' },
  ExcludedPodsUnknown: { type: 'Warning' },
  /** New connections will be refused soon, or are refused. */
  ConntrackNearlyFull: { type: 'Warning', action: 'TrackConnections' },
  TookOverFromKubeProxy: { type: 'Normal', action: 'TakeOver' },
  ProxyModeReplaced: { type: 'Normal', action: 'TakeOver' },
  KubeProxyIsBack: { type: 'Warning', action: 'TakeOver' },
  ForeignTable: { type: 'Warning', action: 'TakeOver' },
  LegacyIptables: { type: 'Warning', action: 'TakeOver' },
} as const;

export type NodeReason = keyof typeof nodeReasons;

export class ClusterEvents implements ConnectTimeEvents {
  readonly #options: ClusterEventsOptions;
  readonly #node: Node;

  constructor(options: ClusterEventsOptions) {
    this.#options = options;
    this.#node = { kind: 'Node', name: options.nodeName };
  }

  /** Creates an event about the node. */
  aboutNode(reason: NodeReason, note: string): void {
    const regarding = this.#node;
    this.#record({ action: 'StartKubeProxy', ...nodeReasons[reason], reason, regarding, note });
  }

  /** The health check node port of the Service does not answer load balancers. */
  serviceHealthFailed(service: string, port: number, { message }: Error): void {
    const topic = `failed to start healthcheck ${JSON.stringify(service)} on port ${port}`;
    this.#aboutService(service, 'FailedToStartServiceHealthcheck', topic, `: ${message}`);
  }

  /** A node port of the Service does not answer on a loopback address. */
  localhostRefused(servicePort: ServicePortName, message: string): void {
    const note = `could not ${message}`;
    this.#aboutService(serviceKey(servicePort), 'FailedToListenOnLocalhost', note);
  }

  /** Creates events for Services only: users do not look for events of other objects. */
  sourceProblem({ subject, field = '', reason }: SourceProblem): void {
    const service = /^Service (\S+\/\S+)$/.exec(subject)?.[1];
    if (service === undefined) return;
    const what = addressField.test(field) ? 'AddressRejected' : 'FieldRejected';
    this.#aboutService(service, what, field === '' ? reason : `${field}: ${reason}`);
  }

  /** Reports about an object were left out. Creates an event only for a Service. */
  leftOut(subject: string, reason: string): void {
    const service = /^(?:Service )?([^/\s]+\/[^/\s]+)$/.exec(subject)?.[1];
    if (service === undefined) return;
    const note = `more of "${reason}" were left out; the log of the node has their number`;
    this.#aboutService(service, 'ReportsLeftOut', note);
  }

  observe(event: AgentEvent): void {
    switch (event.kind) {
      case 'quarantined': {
        const { forwarding, failure } = event.quarantined;
        const { servicePort } = forwarding;
        const port = formatServicePortName(servicePort);
        const topic = `the kernel refuses ${port} of ${event.family}`;
        const details = `: ${failure.message}`;
        this.#aboutService(serviceKey(servicePort), 'SetAside', topic, details);
        return;
      }
      case 'address-refused':
        this.#aboutService(serviceKey(event.servicePort), 'AddressRefused', refusalText(event));
        return;
      default:
        if (!('family' in event)) this.#notice(event);
    }
  }

  #notice({ kind, note, service, text, uid }: Notice): void {
    const { event }: NoticeRow = noticeTable[kind];
    if (event === undefined) return;
    this.#recordAbout(service, { action: 'Sync', ...event }, note ?? text, '', uid);
  }

  #aboutService(
    service: string,
    reason: keyof typeof serviceReasons,
    topic: string,
    details = '',
  ): void {
    this.#recordAbout(service, { reason, ...serviceReasons[reason] }, topic, details);
  }

  #recordAbout(
    service: string,
    { action, reason, scope }: About,
    topic: string,
    details: string,
    uid = this.#options.uidOf(service),
  ): void {
    const where = scope === 'node' ? `node ${this.#options.nodeName}: ` : '';
    const [namespace = '', name = ''] = service.split('/');
    const regarding = { kind: 'Service', namespace, name, uid } as const;
    const note = `${where}${topic}${details}`;
    this.#record({ type: 'Warning', reason, action, regarding, topic, note });
  }

  /** Notes quote what tenants write, and not all who show events to people escape it. */
  #record(event: ClusterEvent): void {
    this.#options.sink.record({ ...event, note: printable(event.note) });
  }
}

interface RecorderOptions {
  readonly log: Logger;
  readonly nodeName: string;
  readonly clock: Clock;
  /** Undefined = create no events. */
  readonly openEvents?: EventRecorderOptions['open'];
}

/** Sends events to the API server, if enabled. */
export function makeRecorder(
  { clock, log, nodeName, openEvents }: RecorderOptions,
  metrics: LifecycleMetrics,
): EventRecorder | undefined {
  if (openEvents === undefined) return undefined;
  return new EventRecorder({
    open: openEvents,
    clock,
    nodeName,
    dropped: (reason) => metrics.eventsDropped.inc({ reason }),
    problem: (error) => log.warn({ err: error.message }, 'Could not send Events to the API server'),
  });
}
