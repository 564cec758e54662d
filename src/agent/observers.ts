/** Wires metrics, health, log, events and answers to the running proxy. */
import type { Config } from '../config/config.ts';
import type { AgentEvent } from '../connect-time/maps/events.ts';
import type { ConntrackObserver } from '../conntrack/events.ts';
import { RecentDumps } from '../conntrack/recent-dumps.ts';
import type { HostFiles } from '../host/files.ts';
import { ownHeap, QuietCollector } from '../host/garbage.ts';
import type { Routing } from '../host/routing.ts';
import { loadAddon } from '../kernel/addon.ts';
import type { Conntrack } from '../kernel/conntrack.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { NoRoom } from '../modes/sockets/bounds.ts';
import type { LocalhostEvent } from '../modes/sockets/localhost.ts';
import type { Family } from '../net/address.ts';
import type { AgentState } from '../serve/ask/agent-state.ts';
import { EventHistory } from '../serve/ask/event-history.ts';
import { ForeignRules } from '../serve/ask/foreign-rules/foreign-rules.ts';
import { Askers } from '../serve/ask/lookups.ts';
import { ProblemIndex } from '../serve/ask/problem-index.ts';
import { UnroutedEndpoints } from '../serve/ask/unrouted.ts';
import { WhileAsked } from '../serve/ask/while-asked.ts';
import { ClusterEvents, makeRecorder } from '../serve/cluster-events.ts';
import { agentMetrics, countersOf } from '../serve/collectors.ts';
import { watchConntrack } from '../serve/conntrack-watch.ts';
import { ProxyHealth } from '../serve/health.ts';
import { HttpThread } from '../serve/http/http-thread.ts';
import { openThread } from '../serve/http/open-thread.ts';
import type { SharedMemory } from '../serve/http/shared-memory.ts';
import type { Wire, WireEvents } from '../serve/http/wire.ts';
import type { Logger } from '../serve/log.ts';
import { Metrics } from '../serve/metrics.ts';
import { conntrackLog, localhostReport } from '../serve/part-reports.ts';
import type { AccessOptions } from '../serve/readers/access.ts';
import { Reporter } from '../serve/reporter.ts';
import { runServers } from '../serve/servers.ts';
import { ServiceCounters } from '../serve/service-counters.ts';
import { ServiceHealth } from '../serve/service-health.ts';
import { SourceReport } from '../serve/source-report.ts';
import { takeoverReport } from '../serve/takeover-report.ts';
import type { EventRecorder, EventRecorderOptions } from '../source/kubernetes/events.ts';
import type { Source, SourceSink } from '../source/source.ts';
import type { Resource } from '../state/change.ts';
import type { EndpointEvent } from '../state/detection.ts';
import type { TakeoverEvent } from '../takeover/takeover.ts';
import type { Clock } from '../time/clock.ts';
import { RecentResults } from '../time/recent.ts';

export interface ObserversOptions {
  readonly config: Config;
  readonly nodeName: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly kernel: Kernel;
  readonly conntrack: Conntrack;
  readonly source: Source;
  /** The families that the kernel has enabled at present. */
  readonly families: () => readonly Family[];
  /** Reads sysctls. Absent if this process does not manage them, as in tests in namespaces. */
  readonly host?: HostFiles;
  /** Absent if routes of this process are not the node's. */
  readonly routing?: Routing;
  /** Opens the connection for events to the API server. Absent with manifests. */
  readonly openEvents?: EventRecorderOptions['open'];
  /** Opens the connection for reviews of tokens. Absent with manifests. */
  readonly openReviews?: AccessOptions['open'];
  /** Starts the HTTP server. Default: on its own thread. */
  readonly openHttp?: HttpOpener;
}

/** See `HttpThread`. Only a server on this thread needs `health`. */
export type HttpOpener = (memory: SharedMemory, events: WireEvents, health: ProxyHealth) => Wire;

/** What the process knows of itself. Answers are made from most of it. */
interface Present
  extends Pick<
    AgentState,
    | 'config'
    | 'configRefusal'
    | 'connectTime'
    | 'engine'
    | 'failureDetection'
    | 'fallbacks'
    | 'fastPath'
    | 'findings'
    | 'heapGuard'
    | 'localhostListeners'
    | 'mode'
    | 'state'
  > {
  readonly servedFamilies: () => readonly Family[];
  /** Nodes were listed, so this node is known if it exists. */
  readonly nodeListed: () => boolean;
}

export class Observers {
  readonly metrics: Metrics;
  readonly health: ProxyHealth;
  /** Answers HTTP. */
  readonly http: HttpThread;
  readonly events: ClusterEvents;
  readonly serviceHealth: ServiceHealth;
  readonly eventHistory: EventHistory;
  readonly problemIndex: ProblemIndex;
  readonly conntrack: ConntrackObserver;
  readonly localhost: (event: LocalhostEvent) => void;
  readonly takeover: (event: TakeoverEvent) => void;
  readonly #options: ObserversOptions;
  readonly #present: Present;
  readonly #agent: AgentState;
  readonly #sourceReport: SourceReport;
  readonly #recorder: EventRecorder | undefined;
  readonly #reporter: Reporter;
  readonly #collector = new QuietCollector({
    ...ownHeap,
    startCollection: () => loadAddon().startCollection(),
    collected: giveMemoryBack,
  });
  readonly #families = () => this.#present.engine()?.families ?? [];

  constructor(options: ObserversOptions, present: Present) {
    this.#options = options;
    this.#present = present;
    const { clock, kernel, log, nodeName } = options;
    const { config, mode, state } = present;
    this.eventHistory = new EventHistory(options);
    const foreignRules = new ForeignRules({
      clock,
      kernel,
      mode: () => mode().name,
      isConnectTime: () => config().connectTime !== 'off',
      masqueradeMark: () => {
        const { name, ownsChain } = mode();
        const { masqueradeAll, masqueradeMark } = config().modes[name];
        // Then chain KUBE-FORWARD accepts what has the mark.
        return ownsChain !== undefined && !masqueradeAll ? masqueradeMark : 0;
      },
    });
    const unrouted = new UnroutedEndpoints({ clock, state, routing: options.routing });
    const counters = new ServiceCounters({
      kernel,
      clock,
      connectTime: () => present.engine()?.connectTime,
      families: this.#families,
      mode: () => (config().serviceMetrics ? mode() : undefined),
      portsOf: (service) => state.service(service)?.ports,
      noticed: (service) => this.problemIndex.resolved(service),
    });
    const failureOf = (service: string) => this.serviceHealth.failureOf(service);
    const own = { counters, foreignRules, serviceHealth: { failureOf }, unrouted };
    this.problemIndex = new ProblemIndex({ ...present, ...own, clock });
    this.metrics = new Metrics(countersOf(kernel, log));
    this.health = this.#makeHealth();
    this.http = this.#makeHttp();
    this.#agent = this.#makeAgent(own);
    agentMetrics(this.metrics.registry, this.#agent);
    this.#sourceReport = new SourceReport({ log, condition: this.#condition });
    this.#recorder = makeRecorder(options, this.metrics.lifecycle);
    this.events = new ClusterEvents({
      sink: this.#recorder ?? { record: () => {} },
      nodeName,
      uidOf: (service) => state.service(service)?.uid ?? '',
    });
    this.#reporter = new Reporter({
      log,
      events: this.events,
      clock,
      leftOut: (count) => this.metrics.lifecycle.reportsLeftOut.inc(count),
    });
    this.serviceHealth = this.#makeServiceHealth();
    this.takeover = takeoverReport(log, this.metrics.lifecycle, this.events);
    this.localhost = localhostReport(log, this.metrics, this.events);
    const logConntrack = conntrackLog(log);
    this.conntrack = (event) => {
      this.metrics.conntrack(event);
      logConntrack(event);
    };
  }

  sync(event: AgentEvent): void {
    if (event.kind === 'queued') this.health.queued(event.family);
    if (event.kind === 'done' && event.healthy) this.health.updated(event.family);
    if (event.kind === 'done' && event.ok) this.serviceHealth.inForce(event.family);
    if (event.kind === 'queued' || event.kind === 'done') this.http.changed();
    if (event.kind === 'done') this.#collector.worked();
    this.metrics.observe(event);
    this.eventHistory.observe(event);
    this.#reporter.sync(event);
  }

  /** An endpoint was left out because it does not answer, or came back. */
  readonly endpointHealth = (event: EndpointEvent): void => this.#reporter.endpointHealth(event);

  noRoom(noRoom: NoRoom): void {
    this.#reporter.noRoom(noRoom);
  }

  /** Handles reports of the source, other than objects. */
  readonly source: Pick<SourceSink, 'problem' | 'listed'> = {
    problem: (problem) => this.#reporter.problem(problem),
    listed: (attempt) => {
      this.metrics.listed(attempt);
      this.#sourceReport.listed(attempt);
    },
  };

  /** Reports missing lists and silent watches of the source, until `signal` aborts. */
  reportSource(signal: AbortSignal): Promise<void> {
    return this.#sourceReport.run(signal);
  }

  /** Serves health, metrics and answers, and sends events, until `signal` aborts. */
  run(signal: AbortSignal): Promise<void>[] {
    const watched = { ...this.#options, families: this.#families, events: this.events };
    const sending = this.#recorder === undefined ? [] : [this.#recorder.run(signal)];
    return [...this.#serve(signal), ...sending, watchConntrack(watched, signal)];
  }

  close(): void {
    this.serviceHealth.close();
    this.http.close();
    this.#reporter.close();
    this.#collector.close();
    this.metrics.close();
  }

  readonly #condition = (resource: Resource) => this.#options.source.condition(resource);

  #makeHealth(): ProxyHealth {
    const { clock } = this.#options;
    const { config, mode, nodeListed, state } = this.#present;
    return new ProxyHealth({
      timeoutMs: () => 2 * config().modes[mode().name].syncPeriodMs,
      now: () => clock.wallMs(),
      monotonicMs: () => clock.now(),
      node: () => state.node,
      nodeListed,
      condition: this.#condition,
      overLimit: () => this.#present.engine()?.overLimit ?? 0,
      behindMs: () => {
        const families = this.#present.engine()?.families ?? [];
        return Math.max(0, ...families.map(({ progress }) => progress.behindMs ?? 0));
      },
    });
  }

  #makeHttp(): HttpThread {
    const { log, openHttp = openThread } = this.#options;
    const http = new HttpThread({
      open: (memory, events) => openHttp(memory, events, this.health),
      facts: () => this.health.facts(),
      ended: (error) =>
        log.error({ err: error.message }, 'HTTP thread ended; starting another one'),
    });
    this.metrics.probed = () => http.memory.takeCounts();
    return http;
  }

  #makeServiceHealth(): ServiceHealth {
    const { clock } = this.#options;
    const { engine, servedFamilies: families, state } = this.#present;
    return new ServiceHealth({
      state,
      clock,
      http: this.http,
      families,
      addresses: (family) => engine()?.listeningAddresses(family) ?? [],
      observer: (event) => {
        this.problemIndex.resolved(event.service);
        this.#reporter.serviceHealth(event);
      },
    });
  }

  #makeAgent(
    own: Pick<AgentState, 'counters' | 'foreignRules' | 'serviceHealth' | 'unrouted'>,
  ): AgentState {
    const { eventHistory, health, problemIndex } = this;
    const { clock, conntrack, host, kernel, nodeName, routing, source } = this.#options;
    return {
      ...{ ...this.#present, ...own, clock, nodeName, source, kernel },
      ...{ eventHistory, health, problemIndex },
      serviceRows: new WhileAsked(),
      askers: new Askers(),
      conntrack: new RecentDumps(conntrack, clock),
      dropPolicies: new RecentResults({ clock, keepMs: dropPoliciesMs }),
      ...(host && { host }),
      ...(routing && { routesTo: routing.find }),
    };
  }

  #serve(signal: AbortSignal): Promise<void>[] {
    const { events, http, metrics } = this;
    const { log, openReviews = noReviews } = this.#options;
    const failed = events.aboutNode.bind(events);
    return runServers({ http, metrics, agent: this.#agent, log, openReviews, failed }, signal);
  }
}

/** How long base chains with policy drop, once read, serve answers. */
const dropPoliciesMs = 1000;

const noReviews = (): Promise<never> =>
  Promise.reject(new Error('objects come from files, and no API server reviews tokens'));

function giveMemoryBack(): void {
  const addon = loadAddon();
  addon.trimMalloc();
  try {
    addon.releaseFilePages();
  } catch {
    // Without /proc they stay.
  }
}
