/** The running proxy: what starts in which order, and what ends when. */
import type { Config } from './config/config.ts';
import { ConntrackReconciler } from './conntrack/reconciler.ts';
import { localDetector } from './host/local-detector.ts';
import { NodeFacts } from './host/node-facts.ts';
import { isLoopback } from './host/node-ips.ts';
import type { Conntrack } from './kernel/conntrack.ts';
import type { Kernel } from './kernel/kernel.ts';
import { type Fallback, selectMode } from './modes/index.ts';
import type { ProxyMode } from './modes/mode.ts';
import { conntrackLog } from './serve/conntrack-log.ts';
import { ProxyHealth } from './serve/health.ts';
import type { Logger } from './serve/log.ts';
import { Metrics } from './serve/metrics.ts';
import { healthRoutes, metricsRoutes } from './serve/routes.ts';
import { type Routes, serve } from './serve/server.ts';
import { syncLog } from './serve/sync-log.ts';
import type { Change, Resource, Source, SourceSink } from './source/source.ts';
import type { Address, Family } from './state/address.ts';
import { ClusterState } from './state/store.ts';
import type { Node } from './state/types.ts';
import { Bell, type Clock } from './sync/clock.ts';
import type { SyncEvent } from './sync/events.ts';
import { FamilySync, type SyncSettings } from './sync/family.ts';
import { SyncLoop } from './sync/loop.ts';
import { Ruleset } from './sync/ruleset.ts';

export interface AppOptions {
  readonly config: Config;
  readonly nodeName: string;
  readonly log: Logger;
  readonly clock: Clock;
  readonly kernel: Kernel;
  readonly conntrack: Conntrack;
  readonly source: Source;
  /** Reads the addresses of this machine. */
  readonly interfaces: () => readonly Address[];
  /** What this machine can do. */
  readonly families: readonly Family[];
}

/** Behaviour document 3.1: how long a Node may lack addresses, or CIDRs where they are needed. */
const nodeAddressesMs = 30_000;
const nodeCIDRsMs = 300_000;
/** How often the machine's addresses are read, where they decide about node ports. */
const interfacesPeriodMs = 5000;

/** Small enough that neither encoding it nor the kernel's commit holds anybody up for long. */
const batchBytesMax = 1024 * 1024;
const sliceMs = 4;
const auditCheckMs = 5000;

export class App {
  readonly #options: AppOptions;
  readonly #state: ClusterState;
  readonly #facts: NodeFacts;
  readonly #metrics: Metrics;
  readonly #health: ProxyHealth;
  readonly #listed = new Set<Resource>();
  readonly #bell: Bell;
  readonly #ending = new AbortController();
  #families: readonly FamilySync[] = [];
  #reconcilers: readonly ConntrackReconciler[] = [];
  #loop: SyncLoop | undefined;
  /** The Node that the rules were made for. */
  #startedWith: Node | undefined;

  constructor(options: AppOptions) {
    const { clock, config, interfaces, source } = options;
    this.#options = options;
    this.#state = new ClusterState(clock.wallMs());
    this.#facts = new NodeFacts({ config, state: this.#state, interfaces });
    this.#bell = new Bell(clock);
    this.#metrics = new Metrics({
      silenceMs: (resource) => source.silenceMs(resource),
      families: () => this.#families,
    });
    this.#health = new ProxyHealth({
      timeoutMs: 2 * config.modes[config.mode || 'nftables'].syncPeriodMs,
      now: () => clock.wallMs(),
      node: () => this.#state.node,
    });
  }

  /** All that the source has said so far is in force in the kernel, or set aside. */
  get settled(): boolean {
    return this.#loop?.settled ?? false;
  }

  /**
   * Runs until `signal` aborts: then the batch in flight is waited for, and the rules stay. Rejects
   * with the reason when the proxy can't do its work; nothing is left running then, either.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { kernel, conntrack, config, log } = this.#options;
    const end = (): void => this.#ending.abort();
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    let parts: Promise<void>[] = [];
    try {
      const { mode, fallbacks } = await selectMode(config.mode, kernel);
      for (const fallback of fallbacks) this.#fellBack(fallback);
      log.info({ mode: mode.name, node: this.#options.nodeName }, 'Using this mode');
      const ending = this.#ending.signal;
      parts = [
        this.#options.source.run(this.#sink(), ending),
        this.#sync(mode, ending),
        ...this.#serve(mode, ending),
      ];
      await Promise.all(parts);
      if (ending.reason instanceof PodCIDRsChanged) throw ending.reason;
    } finally {
      end();
      await Promise.allSettled(parts);
      await Promise.all(this.#reconcilers.map((reconciler) => reconciler.stop()));
      this.#metrics.close();
      kernel.close();
      conntrack.close();
    }
  }

  #fellBack({ from, to, reason }: Fallback): void {
    this.#options.log.warn({ from, to, reason }, 'Falling back to another mode');
    this.#metrics.lifecycle.fellBack(from, to);
  }

  async #sync(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    await this.#awaitNode(signal);
    if (signal.aborted) return;
    const { clock } = this.#options;
    this.#startedWith = this.#state.node;
    this.#families = this.#makeFamilies(mode);
    const loop = new SyncLoop({
      state: this.#state,
      families: this.#families,
      context: () => this.#facts.context,
      environment: (family) => this.#facts.environment(family),
      clock,
      observer: this.#observer(),
      sliceMs,
    });
    this.#loop = loop;
    const stopReading = this.#keepReadingInterfaces(loop);
    await loop.run(signal);
    stopReading();
  }

  #makeFamilies(mode: ProxyMode): FamilySync[] {
    const { config, clock, kernel, families, log } = this.#options;
    const { primary } = this.#facts.ips;
    if (!families.includes(primary)) {
      throw new Error(`no support for primary IP family "${primary}": the kernel has it disabled`);
    }
    log.info({ families, primary }, 'Serving these IP families');
    const ruleset = new Ruleset();
    return families.map((family) => {
      const environment = this.#facts.environment(family);
      const { masqueradeAll, masqueradeMark } = config.modes[mode.name];
      const detector = localDetector(config.detectLocal, family, this.#state.node);
      const modeConfig = { family, masqueradeAll, masqueradeMark, localDetector: detector };
      const follower = this.#conntrackReconciler(family);
      this.#reconcilers = [...this.#reconcilers, follower];
      return new FamilySync({
        planner: mode.planner(modeConfig, environment),
        environment,
        kernel,
        reader: kernel,
        clock,
        ruleset,
        observer: this.#observer(),
        settings: syncSettings(config, mode),
        follower,
      });
    });
  }

  #conntrackReconciler(family: Family): ConntrackReconciler {
    const { clock, conntrack, interfaces } = this.#options;
    const log = conntrackLog(this.#options.log);
    return new ConntrackReconciler({
      family,
      conntrack,
      clock,
      observer: (event) => {
        this.#metrics.conntrack.observe(event);
        log(event);
      },
      localAddresses: () => interfaces().filter((address) => !isLoopback(address)),
    });
  }

  #observer(): (event: SyncEvent) => void {
    const log = syncLog(this.#options.log);
    return (event) => {
      if (event.kind === 'queued') this.#health.queued(event.family);
      if (event.kind === 'done' && event.ok) this.#health.updated(event.family);
      this.#metrics.observe(event);
      log(event);
    };
  }

  #keepReadingInterfaces(loop: SyncLoop): () => void {
    if (this.#options.config.nodePortAddresses.kind !== 'cidrs') return () => {};
    const timer = setInterval(() => {
      this.#facts.readInterfaces();
      loop.wake();
    }, interfacesPeriodMs);
    return () => clearInterval(timer);
  }

  #serve(mode: ProxyMode, signal: AbortSignal): Promise<void>[] {
    const { config, log } = this.#options;
    const servers: readonly (readonly [Config['healthzBindAddress'], Routes])[] = [
      [config.healthzBindAddress, healthRoutes(this.#health, this.#metrics)],
      [config.metricsBindAddress, metricsRoutes(config, mode.name, this.#metrics)],
    ];
    const onBindFailure = config.bindAddressHardFail ? 'fail' : 'retry';
    const problem = (error: Error): void => log.error({ err: error.message }, 'Server failed');
    return servers.flatMap(([at, routes]) =>
      at === undefined ? [] : [serve({ at, routes, onBindFailure, problem }, signal)],
    );
  }

  #sink(): SourceSink {
    const { log } = this.#options;
    return {
      change: (change) => {
        const { revision, node } = this.#state;
        this.#state.apply(change);
        if (this.#state.revision === revision) return;
        this.#count(change);
        if (this.#state.node !== node) this.#nodeChanged(node);
        this.#loop?.wake();
      },
      synced: (resource) => {
        log.info({ resource }, 'First list is complete');
        this.#state.markSynced(resource);
        this.#listed.add(resource);
        this.#bell.ring();
        this.#loop?.wake();
      },
      problem: ({ subject, field, reason }) => {
        log.warn(
          { subject, ...(field === undefined ? {} : { field }), err: reason },
          'Source has trouble',
        );
      },
    };
  }

  #count({ kind }: Change): void {
    if (kind === 'service' || kind === 'service-gone') this.#metrics.changed('service');
    else if (kind === 'slice' || kind === 'slice-gone') this.#metrics.changed('endpoint');
  }

  #nodeChanged(before: Node | undefined): void {
    const { log, config } = this.#options;
    const { node } = this.#state;
    this.#bell.ring();
    if (node?.deleted && !before?.deleted) log.info('Node is being deleted');
    const started = this.#startedWith;
    if (config.detectLocal.kind !== 'NodeCIDR' || !started || !node || node.deleted) return;
    if (node.podCIDRs.join() === started.podCIDRs.join()) return;
    // What a pod is has changed for every rule: start anew.
    this.#ending.abort(new PodCIDRsChanged(started, node));
  }

  /** Behaviour document 3.1. Manifests say at once whether there is a Node. */
  async #awaitNode(signal: AbortSignal): Promise<void> {
    const { config, log, nodeName } = this.#options;
    const node = (): Node | undefined => this.#state.node;
    await this.#until(() => this.#listed.has('nodes') || this.#state.synced, undefined, signal);
    if (config.source.kind === 'kubernetes') {
      const hasAddresses = (): boolean => (node()?.addresses.length ?? 0) > 0;
      if (!(await this.#until(hasAddresses, nodeAddressesMs, signal))) {
        log.error(`Timed out waiting for node to ${node() ? 'be assigned IPs' : 'exist'}`);
      }
    }
    if (config.detectLocal.kind !== 'NodeCIDR') return;
    const hasCIDRs = (): boolean => (node()?.podCIDRs.length ?? 0) > 0;
    if (await this.#until(hasCIDRs, nodeCIDRsMs, signal)) return;
    const name = JSON.stringify(nodeName);
    throw new Error(
      node() === undefined
        ? `timeout waiting for node ${name} to exist`
        : `timeout waiting for PodCIDR allocation on node ${name}`,
    );
  }

  /** Whether `done` came true in time; true when the app is ending. */
  async #until(
    done: () => boolean,
    timeoutMs: number | undefined,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { clock } = this.#options;
    const endMs = timeoutMs === undefined ? undefined : clock.now() + timeoutMs;
    const ring = (): void => this.#bell.ring();
    signal.addEventListener('abort', ring, { once: true });
    while (!done() && !signal.aborted) {
      const leftMs = endMs === undefined ? undefined : endMs - clock.now();
      if (leftMs !== undefined && leftMs <= 0) return false;
      await this.#bell.wait(leftMs);
    }
    return true;
  }
}

class PodCIDRsChanged extends Error {
  constructor(before: Node, after: Node) {
    const [from, to] = [before.podCIDRs.join(' '), after.podCIDRs.join(' ')];
    super(`PodCIDRs changed for the node, from ${from} to ${to}: start again`);
  }
}

function syncSettings(config: Config, mode: ProxyMode): SyncSettings {
  const { minSyncPeriodMs, syncPeriodMs, fullSyncPeriodMs } = config.modes[mode.name];
  const maxMs = Math.max(1000, syncPeriodMs);
  return {
    minSyncPeriodMs,
    batchBytesMax,
    sliceMs,
    audit: {
      checkMs: Math.min(auditCheckMs, maxMs),
      fullMs: fullSyncPeriodMs,
      restFactor: 20,
    },
    asideBackoff: { firstMs: 1000, secondMs: 2000, maxMs },
    recoveryBackoff: { firstMs: 0, secondMs: 250, maxMs },
  };
}
