/** The parts of the agent, and what is true of it at present. */
import type { Config } from '../config/config.ts';
import { ConnectTime } from '../connect-time/connect-time.ts';
import type { ConnectTimePaths } from '../connect-time/maps/choice.ts';
import { ConnectionLimits } from '../connection-limits/connection-limits.ts';
import { RecentDumps } from '../conntrack/recent-dumps.ts';
import { FailureDetection } from '../failure-detection/failure-detection.ts';
import type { ProberOptions } from '../failure-detection/prober.ts';
import { FastPath, type FastPathOptions } from '../fast-path/fast-path.ts';
import { type CheckedNode, checkConfig, findingsOf } from '../host/checks.ts';
import { conntrackUse } from '../host/conntrack.ts';
import { type HeapUse, ownHeapUse } from '../host/heap-use.ts';
import type { ModeChoice, ModeRegistry } from '../modes/index.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import type { Descriptors } from '../modes/sockets/descriptors.ts';
import { LocalhostListeners } from '../modes/sockets/localhost.ts';
import type { Family } from '../net/address.ts';
import type { AgentState } from '../serve/ask/agent-state.ts';
import { EventHistory } from '../serve/ask/event-history.ts';
import { ForeignRules } from '../serve/ask/foreign-rules/foreign-rules.ts';
import { StoppedClients } from '../serve/ask/foreign-rules/stopped-clients.ts';
import { Askers } from '../serve/ask/lookups.ts';
import { MachineFindings } from '../serve/ask/machine-findings.ts';
import { ProblemIndex } from '../serve/ask/problem-index.ts';
import { SecondProxy } from '../serve/ask/second-proxy.ts';
import { SliceSurvey } from '../serve/ask/slice-survey.ts';
import { TakenNodePorts } from '../serve/ask/taken-node-ports.ts';
import { UnansweredEndpoints } from '../serve/ask/unanswered.ts';
import { UnroutedEndpoints } from '../serve/ask/unrouted.ts';
import type { HealthInput } from '../serve/health.ts';
import { ServiceCounters } from '../serve/service-counters.ts';
import { ServiceBytes, type ServiceBytesOptions } from '../service-bytes/service-bytes.ts';
import type { WatchPods } from '../source/pods.ts';
import type { Resource } from '../state/change.ts';
import { HeapGuard } from '../state/heap-guard.ts';
import { ClusterState } from '../state/store.ts';
import type { Node } from '../state/types.ts';
import type { Engine, EngineOptions } from './engine.ts';
import { Observers, type ObserversOptions } from './observers.ts';

export interface AppOptions extends ObserversOptions {
  /** See `EngineOptions`. */
  readonly interfaces: EngineOptions['interfaces'];
  /** See `EngineOptions`. */
  readonly followInterfaces?: NonNullable<EngineOptions['followInterfaces']>;
  /** See `EngineOptions`. */
  readonly programs?: NonNullable<EngineOptions['programs']>;
  /** The paths that connect-time translation needs; undefined = not supported on this machine. */
  readonly connectTime?: ConnectTimePaths;
  /** See `ExcludedPodsOptions`. */
  readonly excludedCgroupsMax?: number;
  /** Says which devices lead to other machines, and how long entries live. Default: `host`. */
  readonly deviceFiles?: FastPathOptions['host'];
  /** Tries connections to endpoints. Default: from this process. */
  readonly connect?: NonNullable<ProberOptions['connect']>;
  /** See `ServiceBytesOptions`. */
  readonly openBytes?: NonNullable<ServiceBytesOptions['openBytes']>;
  /** Watches the pods that a selector matches. Absent with manifests. */
  readonly watchPods?: WatchPods;
  /** The loopback addresses of this process are the node's; default: no. */
  readonly ownsLoopback?: boolean;
  /** The file descriptors that sockets share, also those of modes. */
  readonly descriptors?: Descriptors;
  /** Default: the heap of this thread. */
  readonly heap?: HeapUse;
  readonly modes: ModeRegistry;
  /** Which of these modes the kernel supports as configured. */
  readonly choice: ModeChoice;
}

/** `App` sets what changes, and `ModeRunner` the engine. All others read it. */
export class Agent implements AgentState, HealthInput {
  readonly options: AppOptions;
  readonly clock: AppOptions['clock'];
  readonly kernel: AppOptions['kernel'];
  readonly nodeName: string;
  readonly source: AppOptions['source'];
  readonly state: ClusterState;
  readonly listed = new Set<Resource>();
  readonly heapGuard: HeapGuard;
  readonly eventHistory: EventHistory;
  readonly foreignRules: ForeignRules;
  readonly machine: MachineFindings;
  readonly secondProxy: SecondProxy;
  readonly sliceSurvey: SliceSurvey;
  readonly stoppedClients: StoppedClients;
  readonly takenNodePorts: TakenNodePorts;
  readonly unanswered: UnansweredEndpoints;
  readonly unrouted: UnroutedEndpoints;
  readonly counters: ServiceCounters;
  readonly problemIndex: ProblemIndex;
  readonly askers = new Askers();
  readonly conntrack: RecentDumps;
  readonly host: AgentState['host'];
  readonly routesTo: AgentState['routesTo'];
  readonly observers: Observers;
  readonly connectTime: ConnectTime;
  readonly failureDetection: FailureDetection;
  readonly fastPath: FastPath;
  readonly connectionLimits: ConnectionLimits;
  readonly serviceBytes: ServiceBytes;
  /** Undefined: the loopback addresses of this process are not the node's. */
  readonly localhost: LocalhostListeners | undefined;
  config: Config;
  /** Why the changed configuration file is not in force. */
  configRefusal: string | undefined;
  /** How the mode was chosen that runs, or is about to run. */
  choice: ModeChoice;
  /** Undefined until one runs. */
  engine: Engine | undefined;
  /** Those that the kernel has had enabled since the start. */
  enabledFamilies: readonly Family[];
  /** As last accepted: its pod CIDRs may define local pods. */
  followedNode: Node | undefined;

  constructor(options: AppOptions) {
    const { clock, config, conntrack, host, kernel, routing, source } = options;
    this.options = options;
    this.clock = clock;
    this.kernel = kernel;
    this.nodeName = options.nodeName;
    this.source = source;
    this.host = host;
    this.routesTo = routing?.find;
    this.config = config;
    this.choice = options.choice;
    this.enabledFamilies = options.families();
    this.state = new ClusterState(clock.wallMs(), clock.now.bind(clock));
    const { bytesMax: heapBytesMax } = options.heap ?? ownHeapUse;
    this.heapGuard = new HeapGuard({
      state: this.state,
      // Files are the operator's own.
      heapBytesMax: config.source.kind === 'manifests' ? Infinity : heapBytesMax,
      leftOut: (service, uid) => this.observers.leftOut(service, uid),
    });
    this.eventHistory = new EventHistory(options);
    this.foreignRules = new ForeignRules(this);
    this.stoppedClients = new StoppedClients(this);
    this.machine = new MachineFindings(this);
    this.unrouted = new UnroutedEndpoints({ clock, state: this.state, routing });
    this.counters = new ServiceCounters(this);
    this.problemIndex = new ProblemIndex(this);
    const count = (): number | undefined => host && conntrackUse(host)?.entries;
    this.conntrack = new RecentDumps({ clock, conntrack, count });
    this.secondProxy = new SecondProxy(this);
    this.sliceSurvey = new SliceSurvey(this);
    this.takenNodePorts = new TakenNodePorts(this);
    this.unanswered = new UnansweredEndpoints(this);
    const devices = options.deviceFiles ?? host;
    const parts = { ...options, ...(devices && { host: devices }), agent: this, state: this.state };
    this.serviceBytes = new ServiceBytes(parts);
    this.observers = new Observers(options, this);
    const { endpointHealth, events, localhost, source: reports } = this.observers;
    this.fastPath = new FastPath(parts);
    this.connectionLimits = new ConnectionLimits({
      ...{ ...options, agent: this, state: this.state },
      problems: this.problemIndex,
      isSecond: config.serviceProxyName !== '',
    });
    this.connectionLimits.choose(config.connectionLimits);
    this.failureDetection = new FailureDetection({
      ...{ ...options, agent: this, state: this.state },
      observer: endpointHealth,
      problems: this.problemIndex,
    });
    this.localhost = options.ownsLoopback
      ? new LocalhostListeners(localhost, options.descriptors)
      : undefined;
    this.connectTime = new ConnectTime({ ...options, events, source: reports, agent: this });
  }

  get mode(): ProxyMode {
    return this.choice.mode;
  }

  get fallbacks(): AgentState['fallbacks'] {
    return this.choice.fallbacks;
  }

  /** The syncs of the families that are served. */
  get families(): Engine['families'] {
    return this.engine?.families ?? [];
  }

  get findings(): AgentState['findings'] {
    const found = findingsOf(this.config, this.#checked(this.#ownNode));
    const { connectionLimits, machine, secondProxy, serviceBytes, sliceSurvey } = this;
    const sources = [secondProxy, sliceSurvey, this.stoppedClients, connectionLimits, serviceBytes];
    // At connect time, connections are translated before the kernel looks for their route.
    const routed = this.config.connectTime === 'off' ? [this.unrouted] : [];
    const others = [...routed, ...sources].flatMap((one) => one.findings);
    return [...found, ...machine.found, ...others];
  }

  get health(): AgentState['health'] {
    return this.observers.health;
  }

  get serviceHealth(): AgentState['serviceHealth'] {
    return this.observers.serviceHealth;
  }

  get nodeListed(): boolean {
    return this.listed.has('nodes');
  }

  get timeoutMs(): number {
    return 2 * this.config.modes[this.mode.name].syncPeriodMs;
  }

  get overLimit(): number {
    return this.engine?.overLimit ?? 0;
  }

  get behindMs(): number {
    return Math.max(0, ...this.families.map(({ progress }) => progress.behindMs ?? 0));
  }

  localhostListeners(family: Family): number {
    return this.localhost?.count(family) ?? 0;
  }

  /** Throws if the configuration can't be served on this node; returns warnings. */
  check(config: Config, node: Node | undefined): string[] {
    return checkConfig(config, this.#checked(node));
  }

  #checked(node: CheckedNode['node']): CheckedNode {
    const { interfaces, nodeName } = this.options;
    return { families: this.enabledFamilies, interfaces: interfaces(), nodeName, node };
  }

  /** The Node as the API server has it, where its Nodes are known. */
  get #ownNode(): CheckedNode['node'] {
    const isMissing = this.config.source.kind === 'kubernetes' && this.nodeListed;
    return this.state.node ?? (isMissing ? 'missing' : undefined);
  }
}
