/** The running proxy: the order in which its parts start and end. */
import type { Config } from '../config/config.ts';
import { ownHeapUse } from '../host/heap-use.ts';
import { addressTexts, nodeIPs } from '../host/node-ips.ts';
import { setOomScore } from '../host/process.ts';
import { setSysctls, sysctlsOf } from '../host/sysctls.ts';
import { selectMode } from '../modes/index.ts';
import type { ModeName } from '../modes/mode.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import type { NoRoom } from '../modes/sockets/bounds.ts';
import { families as allFamilies } from '../net/address.ts';
import { setVerbosity } from '../serve/log.ts';
import type { Metrics } from '../serve/metrics.ts';
import { sysctlLog } from '../serve/part-reports.ts';
import type { SourceSink } from '../source/source.ts';
import type { Node } from '../state/types.ts';
import { pause, Wakeup } from '../time/clock.ts';
import { Agent, type AppOptions } from './agent.ts';
import { ModeRunner } from './mode-runner.ts';
import { awaitNode } from './node-wait.ts';

/** How often it is checked whether there is room for objects that were left out. */
const readingCheckMs = 10_000;
/** How often it is checked whether a family is enabled that was disabled. */
const familiesCheckMs = 5000;

export class App {
  readonly #options: AppOptions;
  readonly #agent: Agent;
  readonly #wakeup: Wakeup;
  readonly #ending = new AbortController();
  /** The part that programs the kernel. */
  readonly #runner: ModeRunner;
  /** Why everything ends, if not on request. */
  #failure: Error | undefined;

  constructor(options: AppOptions) {
    this.#options = options;
    this.#agent = new Agent(options);
    this.#wakeup = new Wakeup(options.clock);
    this.#reportMode();
    this.#runner = new ModeRunner(this.#agent);
  }

  /** The mode that runs, or is about to run. */
  get mode(): ModeName {
    return this.#agent.mode.name;
  }

  get metrics(): Metrics {
    return this.#agent.observers.metrics;
  }

  /** A client of a socket was refused for lack of capacity. */
  noRoom(noRoom: NoRoom): void {
    this.#agent.observers.noRoom(noRoom);
  }

  /**
   * Everything that the source has delivered so far is in force in the kernel, or in quarantine.
   */
  get upToDate(): boolean {
    const { connectionLimits, fastPath, localhost } = this.#agent;
    const parts = [connectionLimits, fastPath, this.#runner];
    return parts.every((part) => part.upToDate) && (localhost?.idle ?? true);
  }

  /**
   * Runs until `signal` aborts, then waits for the batch in flight; the rules stay. Rejects with
   * the reason if the proxy can't do its work; then nothing is left running, either.
   */
  run(signal: AbortSignal): Promise<void> {
    return this.#live(signal, 'tolerant', (ending) => {
      this.#setOomScore();
      return [
        this.#sync(ending),
        this.#awaitFamilies(ending),
        ...this.#agent.observers.run(ending),
      ];
    });
  }

  /** Only what needs privileges beyond CAP_NET_ADMIN, and all checks (behaviour document 1.7). */
  initialise(signal: AbortSignal): Promise<void> {
    return this.#live(signal, 'strict', (ending) => {
      // The process that runs after this one may lack the privileges to end them.
      const { connectTime, serviceProxyName } = this.#agent.config;
      const endedStale =
        serviceProxyName === '' && this.#agent.connectTime.stale.end(connectTime !== 'off');
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
    this.#agent.configRefusal = reason;
  }

  /**
   * Applies changes that are possible while running (see `configChanges`). Rejects if it fails;
   * then the old configuration stays in force. One call at a time.
   */
  async reconfigure(config: Config): Promise<void> {
    const agent = this.#agent;
    agent.check(config, agent.state.node);
    const before = agent.config;
    const { kernel, log, modes } = this.#options;
    const { ipvs, mode: asked } = config;
    const choice = asked === before.mode ? undefined : await selectMode(asked, kernel, modes, ipvs);
    const mode = choice?.mode ?? agent.mode;
    // What fails where the machine refuses a value comes first: nothing else has changed then.
    this.#setSysctls(config, mode, 'tolerant');
    await agent.connectTime.choose(config);
    const isSwitched = mode !== agent.mode;
    if (choice !== undefined) {
      agent.choice = choice;
      this.#reportMode();
    }
    agent.config = config;
    const { verbosity } = config.logging;
    if (verbosity !== before.logging.verbosity) setVerbosity(log, verbosity);
    if (config.oomScoreAdj !== before.oomScoreAdj) this.#setOomScore();
    if (isSwitched) this.#runner.switchMode();
    else this.#follow(agent.state.node);
    agent.serviceBytes.choose(config.conntrack.countsBytes);
    if (config.serviceProxyName !== '') return;
    agent.fastPath.choose(config, mode.name);
    agent.failureDetection.choose(config);
    agent.connectionLimits.choose(config.connectionLimits);
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
      this.#setSysctls(this.#agent.config, this.#agent.mode, sysctls);
      const ending = this.#ending.signal;
      const reporting = this.#agent.observers.reportSource(ending);
      const listening = this.#options.source.run(this.#sink(), ending);
      parts = [listening, reporting, this.#watchHeap(ending), ...start(ending)];
      await Promise.all(parts);
      if (this.#failure !== undefined) throw this.#failure;
    } finally {
      this.end();
      await Promise.allSettled(parts);
      const { connectionLimits, connectTime, failureDetection, fastPath, serviceBytes } =
        this.#agent;
      const paths = [connectTime, failureDetection, fastPath, connectionLimits, serviceBytes];
      await Promise.all(paths.map((path) => path.close()));
      this.#agent.observers.close();
      const { conntrack, kernel, modes } = this.#options;
      for (const mode of modes.values()) mode.close?.();
      this.#agent.localhost?.close();
      kernel.close();
      conntrack.close();
    }
  }

  /** Keeps objects within the heap, and has those read that were left out once there is room. */
  async #watchHeap(signal: AbortSignal): Promise<void> {
    const { clock, heap = ownHeapUse, log, source } = this.#options;
    const unfollow = heap.follow((liveBytes) => {
      this.#agent.heapGuard.measured(liveBytes, clock.now());
    });
    while (!signal.aborted) {
      await pause(readingCheckMs, signal, clock);
      if (signal.aborted || !this.#agent.heapGuard.takeReading(clock.now())) continue;
      log.info('Reading again the objects that were left out');
      source.readAgain?.();
    }
    unfollow();
  }

  /** Reports how the mode was chosen. */
  #reportMode(): void {
    const { mode, fallbacks, notAsIptables: err } = this.#agent.choice;
    const { log, nodeName } = this.#options;
    for (const fallback of fallbacks) {
      log.warn({ ...fallback }, 'Falling back to another mode');
      const { from, reason, to } = fallback;
      this.#agent.observers.metrics.lifecycle.fallbacks.inc({ from, to });
      const note = `mode ${from} ${reason}; mode ${to} is next`;
      this.#agent.observers.events.aboutNode('ProxyModeFallback', note);
    }
    if (err !== undefined) {
      log.warn({ err }, "Mode is empty, but kube-proxy's default is not possible; using nftables");
    } else if (mode.asIptables) {
      log.info('Mode is empty; treating packets as in mode iptables');
    }
    // kube-proxy's words, which scripts look for.
    log.info({ mode: mode.name, node: nodeName }, `Using ${mode.name} Proxier`);
  }

  /** `mode` is the one that runs, or is about to run. */
  #setSysctls(config: Config, mode: ProxyMode, how: 'tolerant' | 'strict'): void {
    const { host, log } = this.#options;
    if (host) setSysctls(sysctlsOf(config, mode, host), host, sysctlLog(log, how));
  }

  #setOomScore(): void {
    const { host, log } = this.#options;
    const failure = host && setOomScore(this.#agent.config.oomScoreAdj, host);
    if (failure !== undefined)
      log.debug({ err: failure.message }, 'Could not set the OOM score; leaving it unchanged');
  }

  /** Waits for all facts that rules depend on. */
  async #prepare(signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    await awaitNode(this.#agent, this.#wakeup, log, signal);
    if (signal.aborted) return;
    for (const warning of this.#agent.check(this.#agent.config, this.#agent.state.node)) {
      log.warn({ err: warning }, 'Configuration may be incomplete or incorrect');
    }
    const { node } = this.#agent.state;
    this.#agent.followedNode = node;
    const { primary } = nodeIPs(node, this.#agent.config.bindAddress);
    log.info({ families: this.#agent.enabledFamilies, primary }, 'Using IP families');
  }

  /** Serves a family that the kernel had disabled once it is enabled. */
  async #awaitFamilies(signal: AbortSignal): Promise<void> {
    const { clock, families, log } = this.#options;
    while (!signal.aborted && this.#agent.enabledFamilies.length < allFamilies.length) {
      await pause(familiesCheckMs, signal, clock);
      if (signal.aborted) return;
      try {
        const known = [...this.#agent.enabledFamilies, ...families()];
        const next = allFamilies.filter((family) => known.includes(family));
        if (next.length === this.#agent.enabledFamilies.length) continue;
        this.#setSysctls(this.#agent.config, this.#agent.mode, 'tolerant');
        this.#agent.enabledFamilies = next;
        log.info({ families: next }, 'IP family was enabled; serving it from now on');
        this.#runner.follow();
      } catch (error) {
        log.debug({ err: (error as Error).message }, 'Could not read IP families; trying again');
      }
    }
  }

  async #sync(signal: AbortSignal): Promise<void> {
    await this.#prepare(signal);
    if (signal.aborted) return;
    await this.#agent.connectTime.choose(this.#agent.config);
    this.#agent.serviceBytes.choose(this.#agent.config.conntrack.countsBytes);
    // A second proxy leaves the tables of the first one alone.
    if (this.#agent.config.serviceProxyName === '') {
      this.#agent.fastPath.choose(this.#agent.config, this.#agent.mode.name);
      this.#agent.failureDetection.choose(this.#agent.config);
    }
    this.#agent.observers.events.aboutNode('Starting', '');
    await this.#runner.run(signal);
  }

  /** Rules follow the change. Without any pod CIDR, the last ones stay in force. */
  #follow(node: Node | undefined): void {
    if (node !== undefined && node.podCIDRs.length > 0) this.#agent.followedNode = node;
    this.#runner.follow();
  }

  #sink(): SourceSink {
    return {
      change: (change) => {
        const { revision, node } = this.#agent.state;
        const taken = this.#agent.heapGuard.apply(change);
        if (this.#agent.state.revision === revision) return taken;
        this.#agent.observers.metrics.changed(change.kind);
        if (this.#agent.state.node !== node) this.#nodeChanged(node);
        this.#agent.engine?.wake();
        return taken;
      },
      synced: (resource) => {
        this.#options.log.info({ resource }, 'First list complete');
        this.#agent.state.markSynced(resource);
        this.#agent.fastPath.synced();
        this.#agent.connectionLimits.synced();
        this.#agent.listed.add(resource);
        this.#agent.observers.http.changed();
        this.#wakeup.wake();
        this.#agent.engine?.wake();
      },
      ...this.#agent.observers.source,
    };
  }

  #nodeChanged(before: Node | undefined): void {
    this.#wakeup.wake();
    this.#agent.observers.http.changed();
    const { config, followedNode, state } = this.#agent;
    const { log } = this.#options;
    const { node } = state;
    if (node === undefined || followedNode === undefined) return;
    if (node.deleted) {
      if (!before?.deleted) log.info('Node is being deleted');
      return;
    }
    const [from, to] = [before, node].map(addressTexts);
    if (from !== to) log.info({ from, to }, 'NodeIPs changed for the node; updating rules');
    if (config.detectLocal.kind === 'NodeCIDR') this.#podCIDRsChanged(followedNode, node);
  }

  /** The pod CIDRs may be the ones by which rules recognise local pods. */
  #podCIDRsChanged(before: Node, node: Node): void {
    const { log } = this.#options;
    const [from, to] = [before.podCIDRs.join(), node.podCIDRs.join()];
    if (from === to || to === '') return;
    try {
      this.#agent.check(this.#agent.config, node);
      log.info({ from, to }, 'PodCIDRs changed for the node; updating rules');
      this.#follow(node);
    } catch (error) {
      const err = (error as Error).message;
      log.error({ from, to, err }, 'PodCIDRs changed for the node; keeping the rules');
    }
  }
}
