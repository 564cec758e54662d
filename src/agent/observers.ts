/** Wires metrics, health, log, events and answers to the running proxy. */
import type { Config } from '../config/config.ts';
import type { AgentEvent } from '../connect-time/maps/events.ts';
import type { ConntrackObserver } from '../conntrack/events.ts';
import type { FolderFiles, HostFiles } from '../host/files.ts';
import { ownHeap, QuietCollector } from '../host/garbage.ts';
import type { Routing } from '../host/routing.ts';
import { loadAddon } from '../kernel/addon.ts';
import type { Conntrack } from '../kernel/conntrack.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { NoRoom } from '../modes/sockets/bounds.ts';
import type { LocalhostEvent } from '../modes/sockets/localhost.ts';
import type { Family } from '../net/address.ts';
import type { AgentState } from '../serve/ask/agent-state.ts';
import type { EventHistory } from '../serve/ask/event-history.ts';
import { ClusterEvents, makeRecorder } from '../serve/cluster-events.ts';
import { agentMetrics, countersOf } from '../serve/collectors.ts';
import { watchConntrack } from '../serve/conntrack-watch.ts';
import { type HealthInput, ProxyHealth } from '../serve/health.ts';
import { HttpThread } from '../serve/http/http-thread.ts';
import { openThread } from '../serve/http/open-thread.ts';
import type { SharedMemory } from '../serve/http/shared-memory.ts';
import type { Wire, WireEvents } from '../serve/http/wire.ts';
import type { Logger } from '../serve/log.ts';
import { Metrics } from '../serve/metrics.ts';
import { NetworkHealth } from '../serve/network-health.ts';
import { conntrackLog, localhostReport } from '../serve/part-reports.ts';
import type { AccessOptions } from '../serve/readers/access.ts';
import { Reporter } from '../serve/reporter.ts';
import { runServers } from '../serve/servers.ts';
import { ServiceHealth } from '../serve/service-health.ts';
import { SourceReport } from '../serve/source-report.ts';
import { takeoverReport } from '../serve/takeover-report.ts';
import type { EventRecorder, EventRecorderOptions } from '../source/kubernetes/events.ts';
import type { Source, SourceProblem, SourceSink } from '../source/source.ts';
import { resources } from '../state/change.ts';
import type { EndpointEvent } from '../state/detection.ts';
import type { ServiceFollower } from '../state/store.ts';
import type { FamilySync } from '../sync/family.ts';
import type { TakeoverEvent } from '../takeover/takeover.ts';
import type { Clock } from '../time/clock.ts';

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
  readonly host?: HostFiles & FolderFiles;
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

/** What is observed. */
interface Observed extends AgentState, Omit<HealthInput, keyof AgentState> {
  readonly eventHistory: EventHistory;
  readonly problemIndex: AgentState['problemIndex'] & ServiceFollower;
  readonly families: readonly FamilySync[];
  /** Those that the kernel has enabled: one may come later. */
  readonly enabledFamilies: readonly Family[];
}

export class Observers {
  readonly metrics: Metrics;
  readonly health: ProxyHealth;
  /** Answers HTTP. */
  readonly http: HttpThread;
  readonly events: ClusterEvents;
  readonly serviceHealth: ServiceHealth;
  readonly conntrack: ConntrackObserver;
  readonly localhost: (event: LocalhostEvent) => void;
  readonly takeover: (event: TakeoverEvent) => void;
  readonly #options: ObserversOptions;
  readonly #agent: Observed;
  readonly #sourceReport: SourceReport;
  readonly #recorder: EventRecorder | undefined;
  readonly #reporter: Reporter;
  #isReady = false;
  readonly #collector = new QuietCollector({
    ...ownHeap,
    startCollection: () => loadAddon().startCollection(),
    collected: giveMemoryBack,
  });

  constructor(options: ObserversOptions, agent: Observed) {
    this.#options = options;
    this.#agent = agent;
    const { clock, kernel, log, nodeName } = options;
    this.metrics = new Metrics(countersOf(kernel, log), agent);
    this.health = new ProxyHealth(agent);
    this.http = this.#makeHttp();
    agentMetrics(this.metrics.registry, agent);
    this.#sourceReport = new SourceReport({
      ...options,
      problem: (problem) => this.#reporter.problem(problem),
    });
    this.#recorder = makeRecorder(options, this.metrics.lifecycle);
    this.events = new ClusterEvents({
      sink: this.#recorder ?? { record() {} },
      nodeName,
      uidOf: (service) => agent.state.service(service)?.uid ?? '',
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
    this.#agent.eventHistory.observe(event);
    this.#reporter.sync(event);
    if (!this.#isReady && this.#agent.engine?.isStarted) this.#reportReady();
  }

  /** The last line of a start. */
  #reportReady(): void {
    const { families, state } = this.#agent;
    this.#isReady = true;
    const servicePorts = families.reduce((sum, { inForce }) => sum + inForce.size, 0);
    const about = { services: state.serviceCount, servicePorts };
    const served = families.map(({ family }) => family);
    const seconds = Math.round(process.uptime() * 10) / 10;
    this.#options.log.info({ ...about, families: served, seconds }, 'Ready');
  }

  /** An endpoint was left out because it does not answer, or came back. */
  readonly endpointHealth = (event: EndpointEvent): void => this.#reporter.endpointHealth(event);

  /** There is no memory for the Service `namespace/name`. */
  leftOut(service: string, uid: string): void {
    const text =
      'is not served: there is no memory for it on nodes, and its namespace takes most of it';
    this.sync({ kind: 'left-out', service, uid, text });
  }

  noRoom(noRoom: NoRoom): void {
    this.#reporter.noRoom(noRoom);
  }

  /** Handles reports of the source, other than objects. */
  readonly source: Pick<SourceSink, 'problem' | 'listed'> = {
    problem: (problem) => {
      const report = isOfWatch(problem) ? this.#sourceReport : this.#reporter;
      report.problem(problem);
    },
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
    const watched = { ...this.#options, agent: this.#agent, events: this.events };
    const sending = this.#recorder === undefined ? [] : [this.#recorder.run(signal)];
    const { health, http } = this;
    const network = new NetworkHealth({ ...watched, health, http, state: this.#agent.state });
    const trying = this.#options.config.healthzNetwork ? [network.run(signal)] : [];
    return [...this.#serve(signal), ...sending, ...trying, watchConntrack(watched, signal)];
  }

  close(): void {
    this.serviceHealth.close();
    this.http.close();
    this.#reporter.close();
    this.#collector.close();
    this.metrics.close();
  }

  #makeHttp(): HttpThread {
    const { log, openHttp = openThread } = this.#options;
    const http = new HttpThread({
      open: (memory, events) => openHttp(memory, events, this.health),
      health: this.health,
      ended: (error) =>
        log.error({ err: error.message }, 'HTTP thread ended; starting another one'),
    });
    this.metrics.probes = http.memory;
    return http;
  }

  #makeServiceHealth(): ServiceHealth {
    const [{ clock }, agent] = [this.#options, this.#agent];
    return new ServiceHealth({
      state: agent.state,
      clock,
      http: this.http,
      agent,
      addresses: (family) => agent.engine?.listeningAddresses(family) ?? [],
      observer: (event) => {
        agent.problemIndex.resolved(event.service);
        this.#reporter.serviceHealth(event);
      },
    });
  }

  #serve(signal: AbortSignal): Promise<void>[] {
    const { events, http, metrics } = this;
    const { log, openReviews = noReviews } = this.#options;
    const failed = events.aboutNode.bind(events);
    return runServers({ http, metrics, agent: this.#agent, log, openReviews, failed }, signal);
  }
}

const noReviews = (): Promise<never> =>
  Promise.reject(new Error('objects come from files, and no API server reviews tokens'));

/** Whether it is about one of the watches of which the source has a condition. */
function isOfWatch({ field, subject }: SourceProblem): boolean {
  return field === undefined && resources.some((resource) => subject === `${resource} watch`);
}

function giveMemoryBack(): void {
  const addon = loadAddon();
  addon.trimMalloc();
  try {
    addon.releaseFilePages();
  } catch {
    // Without /proc they stay.
  }
}
