/** The running proxy: the order in which its parts start and end. */
import type { Config } from '../config/config.ts';
import { ConnectTime } from '../connect-time/connect-time.ts';
import type { ConnectTimePaths } from '../connect-time/maps/choice.ts';
import { FailureDetection } from '../failure-detection/failure-detection.ts';
import { FastPath, type FastPathOptions } from '../fast-path/fast-path.ts';
import { type CheckedNode, checkConfig, findingsOf } from '../host/checks.ts';
import { isConntrackLiberal } from '../host/conntrack.ts';
import { type HeapUse, ownHeapUse } from '../host/heap-use.ts';
import { nodeIPs } from '../host/node-ips.ts';
import { setOomScore } from '../host/process.ts';
import { setSysctls, sysctlsOf } from '../host/sysctls.ts';
import { type Fallback, type ModeChoice, type ModeRegistry, selectMode } from '../modes/index.ts';
import type { ModeName, ProxyMode } from '../modes/mode.ts';
import type { NoRoom } from '../modes/sockets/bounds.ts';
import type { Descriptors } from '../modes/sockets/descriptors.ts';
import { LocalhostListeners } from '../modes/sockets/localhost.ts';
import { type Address, families as allFamilies, type Family } from '../net/address.ts';
import { setVerbosity } from '../serve/log.ts';
import type { Metrics } from '../serve/metrics.ts';
import { sysctlLog } from '../serve/part-reports.ts';
import type { WatchPods } from '../source/pods.ts';
import type { SourceSink } from '../source/source.ts';
import type { Resource } from '../state/change.ts';
import { HeapGuard } from '../state/heap-guard.ts';
import { ClusterState } from '../state/store.ts';
import type { Node } from '../state/types.ts';
import { keepsProxyTable } from '../takeover/sign.ts';
import { Wakeup } from '../time/clock.ts';
import type { EngineOptions } from './engine.ts';
import { type EngineSettings, engineSettings } from './engine-settings.ts';
import { ModeRunner } from './mode-runner.ts';
import { reportNodeChange } from './node-changes.ts';
import { awaitNode } from './node-wait.ts';
import { Observers, type ObserversOptions } from './observers.ts';

export interface AppOptions extends ObserversOptions {
  /** Reads the addresses of this machine. */
  readonly interfaces: () => readonly Address[];
  /** See `EngineOptions`. */
  readonly followInterfaces?: NonNullable<EngineOptions['followInterfaces']>;
  /** See `EngineOptions`. */
  readonly programs?: NonNullable<EngineOptions['programs']>;
  /** The paths that connect-time translation needs; undefined = not supported on this machine. */
  readonly connectTime?: ConnectTimePaths;
  /** See `ExcludedPodsOptions`. */
  readonly excludedCgroupsMax?: number;
  /** Says which devices lead to other machines, for the fast path. Default: `host`. */
  readonly deviceFiles?: FastPathOptions['host'];
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

/** How often it is checked whether there is room for objects that were left out. */
const readingCheckMs = 10_000;
/** How often it is checked whether a family is enabled that was disabled. */
const familiesCheckMs = 5000;

export class App {
  readonly #options: AppOptions;
  readonly #state: ClusterState;
  readonly #listed = new Set<Resource>();
  readonly #heapGuard: HeapGuard;
  readonly #wakeup: Wakeup;
  readonly #ending = new AbortController();
  readonly #observers: Observers;
  readonly #connectTime: ConnectTime;
  readonly #failureDetection: FailureDetection;
  readonly #fastPath: FastPath;
  readonly #localhost: LocalhostListeners | undefined;
  /** The part that programs the kernel. */
  readonly #runner: ModeRunner;
  #config: Config;
  /** Those that the kernel has had enabled since the start. */
  #families: readonly Family[];
  /** Why the changed configuration file is not in force. */
  #configRefusal: string | undefined;
  /** As last read. */
  #isLiberal = false;
  /** As last accepted: its pod CIDRs may define local pods. */
  #node: Node | undefined;
  /** How the running mode was chosen. */
  #fallbacks: readonly Fallback[] = [];
  /** Why everything ends, if not on request. */
  #failure: Error | undefined;

  constructor(options: AppOptions) {
    const { clock } = options;
    this.#options = options;
    this.#config = options.config;
    this.#families = options.families();
    this.#state = new ClusterState(clock.wallMs(), () => clock.now());
    const { bytesMax: heapBytesMax } = options.heap ?? ownHeapUse;
    this.#heapGuard = new HeapGuard({
      state: this.#state,
      // Files are the operator's own.
      heapBytesMax: options.config.source.kind === 'manifests' ? Infinity : heapBytesMax,
      leftOut: (service, uid) => {
        const text =
          'is not served: there is no memory for it on nodes, and its namespace takes most of it';
        this.#observers.sync({ kind: 'left-out', service, uid, text });
      },
    });
    this.#wakeup = new Wakeup(clock);
    this.#observers = new Observers(options, {
      state: this.#state,
      heapGuard: this.#heapGuard,
      config: () => this.#config,
      configRefusal: () => this.#configRefusal,
      findings: () => findingsOf(this.#config, this.#checked(this.#ownNode)),
      servedFamilies: () => this.#families,
      mode: () => this.#runner.mode,
      fallbacks: () => this.#fallbacks,
      engine: () => this.#runner.engine,
      nodeListed: () => this.#listed.has('nodes'),
      localhostListeners: (family) => this.#localhost?.count(family) ?? 0,
      connectTime: () => this.#connectTime,
      failureDetection: () => this.#failureDetection,
      fastPath: () => this.#fastPath,
    });
    const host = options.deviceFiles ?? options.host;
    this.#fastPath = new FastPath({
      ...{ ...options, ...(host && { host }), state: this.#state },
      families: () => this.#runner.engine?.families ?? [],
    });
    this.#failureDetection = this.#makeFailureDetection();
    const { events, localhost, source } = this.#observers;
    this.#localhost = options.ownsLoopback
      ? new LocalhostListeners(localhost, options.descriptors)
      : undefined;
    this.#connectTime = new ConnectTime({
      ...options,
      families: () => this.#families,
      events,
      source,
      changed: () => this.#runner.engine?.wake(),
    });
    this.#runner = this.#makeRunner(this.#reportMode(options.choice));
  }

  /** The mode that runs, or is about to run. */
  get mode(): ModeName {
    return this.#runner.mode.name;
  }

  get metrics(): Metrics {
    return this.#observers.metrics;
  }

  /** A client of a socket was refused for lack of capacity. */
  noRoom(noRoom: NoRoom): void {
    this.#observers.noRoom(noRoom);
  }

  /**
   * Everything that the source has delivered so far is in force in the kernel, or in quarantine.
   */
  get upToDate(): boolean {
    const isDone = this.#fastPath.upToDate && (this.#localhost?.idle ?? true);
    return isDone && this.#runner.upToDate;
  }

  /**
   * Runs until `signal` aborts, then waits for the batch in flight; the rules stay. Rejects with
   * the reason if the proxy can't do its work; then nothing is left running, either.
   */
  run(signal: AbortSignal): Promise<void> {
    return this.#live(signal, 'tolerant', (ending) => {
      this.#setOomScore();
      return [this.#sync(ending), this.#awaitFamilies(ending), ...this.#observers.run(ending)];
    });
  }

  /** Only what needs privileges beyond CAP_NET_ADMIN, and all checks (behaviour document 1.7). */
  initialise(signal: AbortSignal): Promise<void> {
    return this.#live(signal, 'strict', (ending) => {
      // The process that runs after this one may lack the privileges to end them.
      const endedStale = this.#connectTime.stale.end(this.#config.connectTime !== 'off');
      return [Promise.all([this.#prepare(ending), endedStale]).then(() => this.end())];
    });
  }

  /** Ends what runs; with a reason, that is a failure. */
  end(failure?: Error): void {
    this.#failure ??= failure;
    this.#ending.abort();
  }

  /** Lets the status say that the changed configuration file is not in force; undefined: it is. */
  refuseConfig(reason: string | undefined): void {
    this.#configRefusal = reason;
  }

  /**
   * Applies changes that are possible while running (see `configChanges`). Rejects if it fails;
   * then the old configuration stays in force. One call at a time.
   */
  async reconfigure(config: Config): Promise<void> {
    this.#check(config, this.#state.node);
    const before = this.#config;
    const { kernel, modes } = this.#options;
    const { ipvs, mode: asked } = config;
    const choice = asked === before.mode ? undefined : await selectMode(asked, kernel, modes, ipvs);
    const mode = choice?.mode ?? this.#runner.mode;
    // What fails where the machine refuses a value comes first: nothing else has changed then.
    this.#setSysctls(config, mode, 'tolerant');
    await this.#connectTime.choose(config);
    if (choice !== undefined) this.#reportMode(choice);
    this.#config = config;
    if (config.logging.verbosity !== before.logging.verbosity) {
      setVerbosity(this.#options.log, config.logging.verbosity);
    }
    if (config.oomScoreAdj !== before.oomScoreAdj) this.#setOomScore();
    if (mode !== this.#runner.mode) this.#runner.switchTo(mode);
    else this.#follow(this.#state.node);
    this.#fastPath.choose(config, mode.name);
    this.#failureDetection.choose(config);
  }

  async #live(
    signal: AbortSignal,
    sysctls: 'tolerant' | 'strict',
    start: (ending: AbortSignal) => Promise<void>[],
  ): Promise<void> {
    signal.addEventListener('abort', () => this.end(), { once: true });
    if (signal.aborted) this.end();
    let parts: Promise<void>[] = [];
    try {
      this.#setSysctls(this.#config, this.#runner.mode, sysctls);
      const ending = this.#ending.signal;
      const reporting = this.#observers.reportSource(ending);
      const listening = this.#options.source.run(this.#sink(), ending);
      parts = [listening, reporting, this.#watchHeap(ending), ...start(ending)];
      await Promise.all(parts);
      if (this.#failure !== undefined) throw this.#failure;
    } finally {
      this.end();
      await Promise.allSettled(parts);
      const paths = [this.#connectTime, this.#failureDetection, this.#fastPath];
      await Promise.all(paths.map((path) => path.close()));
      this.#observers.close();
      const { conntrack, kernel, modes } = this.#options;
      for (const mode of modes.values()) mode.close?.();
      this.#localhost?.close();
      kernel.close();
      conntrack.close();
    }
  }

  /** Keeps objects within the heap, and has those read that were left out once there is room. */
  async #watchHeap(signal: AbortSignal): Promise<void> {
    const { clock, heap = ownHeapUse, log, source } = this.#options;
    const unfollow = heap.follow((liveBytes) => {
      this.#heapGuard.measured(liveBytes, clock.now());
    });
    const wakeup = new Wakeup(clock);
    signal.addEventListener('abort', () => wakeup.wake(), { once: true });
    while (!signal.aborted) {
      await wakeup.wait(readingCheckMs);
      if (signal.aborted || !this.#heapGuard.takeReading(clock.now())) continue;
      log.info('Reading again the objects that were left out');
      source.readAgain?.();
    }
    unfollow();
  }

  /** Reports how this mode was chosen. */
  #reportMode({ mode, fallbacks, notAsIptables: err }: ModeChoice): ProxyMode {
    const { log, nodeName } = this.#options;
    this.#fallbacks = fallbacks;
    for (const fallback of fallbacks) {
      log.warn({ ...fallback }, 'Falling back to another mode');
      const { from, reason, to } = fallback;
      this.#observers.metrics.lifecycle.fallbacks.inc({ from, to });
      const note = `mode ${from} ${reason}; mode ${to} is next`;
      this.#observers.events.aboutNode('ProxyModeFallback', note);
    }
    if (err !== undefined) {
      log.warn({ err }, "Mode is empty, but kube-proxy's default is not possible; using nftables");
    } else if (mode.asIptables) {
      log.info('Mode is empty; treating packets as in mode iptables');
    }
    // kube-proxy's words, which scripts look for.
    log.info({ mode: mode.name, node: nodeName }, `Using ${mode.name} Proxier`);
    return mode;
  }

  /** `mode` is the one that runs, or is about to run. */
  #setSysctls(config: Config, mode: ProxyMode, how: 'tolerant' | 'strict'): void {
    const { host, log } = this.#options;
    if (host) setSysctls(sysctlsOf(config, mode, host), host, sysctlLog(log, how));
  }

  #setOomScore(): void {
    const { host, log } = this.#options;
    const failure = host && setOomScore(this.#config.oomScoreAdj, host);
    if (failure !== undefined)
      log.debug({ err: failure.message }, 'Could not set the OOM score; leaving it unchanged');
  }

  /** Throws if the configuration can't be served on this node; returns warnings. */
  #check(config: Config, node: Node | undefined): string[] {
    return checkConfig(config, this.#checked(node));
  }

  #checked(node: CheckedNode['node']): CheckedNode {
    const { interfaces, nodeName } = this.#options;
    return { families: this.#families, interfaces: interfaces(), nodeName, node };
  }

  /** The Node as the API server has it, where its Nodes are known. */
  get #ownNode(): CheckedNode['node'] {
    const isMissing = this.#config.source.kind === 'kubernetes' && this.#listed.has('nodes');
    return this.#state.node ?? (isMissing ? 'missing' : undefined);
  }

  /** Waits for all facts that rules depend on. */
  async #prepare(signal: AbortSignal): Promise<void> {
    const { clock, log, nodeName } = this.#options;
    const known = {
      config: () => this.#config,
      nodeName,
      node: () => this.#state.node,
      nodeListed: () => this.#listed.has('nodes'),
      synced: () => this.#state.synced,
    };
    await awaitNode({ ...known, clock, wakeup: this.#wakeup, log }, signal);
    if (signal.aborted) return;
    for (const warning of this.#check(this.#config, this.#state.node)) {
      log.warn({ err: warning }, 'Configuration may be incomplete or incorrect');
    }
    this.#node = this.#state.node;
    const { primary } = nodeIPs(this.#node, this.#config.bindAddress);
    log.info({ families: this.#families, primary }, 'Using IP families');
  }

  /** Serves a family that the kernel had disabled once it is enabled. */
  async #awaitFamilies(signal: AbortSignal): Promise<void> {
    const { clock, families, log } = this.#options;
    const wakeup = new Wakeup(clock);
    signal.addEventListener('abort', () => wakeup.wake(), { once: true });
    while (!signal.aborted && this.#families.length < allFamilies.length) {
      await wakeup.wait(familiesCheckMs);
      if (signal.aborted) return;
      const known = [...this.#families];
      try {
        known.push(...families());
      } catch (error) {
        log.debug({ err: (error as Error).message }, 'Could not read IP families; trying again');
      }
      const next = allFamilies.filter((family) => known.includes(family));
      if (next.length === this.#families.length) continue;
      this.#families = next;
      log.info({ families: next }, 'IP family was enabled; serving it from now on');
      this.#setSysctls(this.#config, this.#runner.mode, 'tolerant');
      this.#runner.follow();
    }
  }

  async #sync(signal: AbortSignal): Promise<void> {
    await this.#prepare(signal);
    if (signal.aborted) return;
    await this.#connectTime.choose(this.#config);
    this.#fastPath.choose(this.#config, this.#runner.mode.name);
    this.#failureDetection.choose(this.#config);
    this.#observers.events.aboutNode('Starting', '');
    await this.#runner.run(signal);
  }

  #makeRunner(mode: ProxyMode): ModeRunner {
    const { conntrack, eventHistory, metrics, problemIndex, serviceHealth, takeover } =
      this.#observers;
    return new ModeRunner(mode, {
      ...this.#options,
      settings: (of) => this.#engineSettings(of),
      modes: [...this.#options.modes.values()],
      running: (of) => metrics.running(of),
      state: this.#state,
      observer: (event) => this.#observers.sync(event),
      conntrackObserver: conntrack,
      changed: (...change) => eventHistory.recent.changed(...change),
      followers: [serviceHealth, problemIndex, this.#fastPath, this.#failureDetection],
      signed: (of) => (keepsProxyTable(this.#config, of) ? this.#families : []),
      takeoverObserver: takeover,
      localhost: this.#localhost,
      server: () => this.#options.source.server(),
      health: this.#failureDetection,
      excludedCgroups: () => this.#connectTime.excludedPods.cgroups,
      // Removes the programs of an earlier engine, unless this one uses them.
      starting: ({ connectTime }) => this.#connectTime.stale.end(connectTime !== undefined),
    });
  }

  #makeFailureDetection(): FailureDetection {
    const { endpointHealth, problemIndex } = this.#observers;
    return new FailureDetection({
      ...this.#options,
      state: this.#state,
      families: () => this.#runner.engine?.families ?? [],
      interfaces: () => this.#runner.engine?.interfaces ?? [],
      ownerOf: (address, port) => {
        return this.#runner.engine?.owners.ownerOf(address.family, 'TCP', { address, port });
      },
      observer: endpointHealth,
      problems: problemIndex,
    });
  }

  #engineSettings(mode: ProxyMode): EngineSettings {
    const { placement } = this.#connectTime;
    return engineSettings({
      config: this.#config,
      node: this.#node,
      mode,
      families: this.#families,
      isLiberal: this.#readLiberal(),
      connectTime: placement,
    });
  }

  /** If it cannot be read, for lack of file descriptors or memory, the previous value is used. */
  #readLiberal(): boolean {
    const { host, log } = this.#options;
    try {
      this.#isLiberal = host !== undefined && isConntrackLiberal(host);
    } catch (error) {
      log.warn({ err: (error as Error).message }, 'Could not read sysctl; taking it as it was');
    }
    return this.#isLiberal;
  }

  /** Rules follow the change. Without any pod CIDR, the last ones stay in force. */
  #follow(node: Node | undefined): void {
    if (node !== undefined && node.podCIDRs.length > 0) this.#node = node;
    this.#runner.follow();
  }

  #sink(): SourceSink {
    return {
      change: (change) => {
        const { revision, node } = this.#state;
        const taken = this.#heapGuard.apply(change);
        if (this.#state.revision === revision) return taken;
        this.#observers.metrics.changed(change.kind);
        if (this.#state.node !== node) this.#nodeChanged(node);
        this.#runner.engine?.wake();
        return taken;
      },
      synced: (resource) => {
        this.#options.log.info({ resource }, 'First list complete');
        this.#state.markSynced(resource);
        this.#fastPath.synced();
        this.#listed.add(resource);
        this.#observers.http.changed();
        this.#wakeup.wake();
        this.#runner.engine?.wake();
      },
      ...this.#observers.source,
    };
  }

  #nodeChanged(before: Node | undefined): void {
    this.#wakeup.wake();
    this.#observers.http.changed();
    reportNodeChange(before, this.#state.node, {
      log: this.#options.log,
      config: this.#config,
      followed: this.#node,
      check: (node) => this.#check(this.#config, node),
      follow: (node) => this.#follow(node),
    });
  }
}
