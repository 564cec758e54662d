/** The running proxy: what starts in which order, and what ends when. */
import type { Config } from './config/config.ts';
import { Engine } from './engine.ts';
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
export class App {
  readonly #options: AppOptions;
  readonly #state: ClusterState;
  readonly #metrics: Metrics;
  readonly #health: ProxyHealth;
  readonly #listed = new Set<Resource>();
  readonly #bell: Bell;
  readonly #ending = new AbortController();
  #engine: Engine | undefined;
  /** The Node that the rules were made for. */
  #startedWith: Node | undefined;

  constructor(options: AppOptions) {
    const { clock, config, source } = options;
    this.#options = options;
    this.#state = new ClusterState(clock.wallMs());
    this.#bell = new Bell(clock);
    this.#metrics = new Metrics({
      silenceMs: (resource) => source.silenceMs(resource),
      families: () => this.#engine?.families ?? [],
    });
    this.#health = new ProxyHealth({
      timeoutMs: 2 * config.modes[config.mode || 'nftables'].syncPeriodMs,
      now: () => clock.wallMs(),
      node: () => this.#state.node,
    });
  }

  /** All that the source has said so far is in force in the kernel, or set aside. */
  get settled(): boolean {
    return this.#engine?.settled ?? false;
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
    this.#startedWith = this.#state.node;
    this.#engine = this.#makeEngine(mode);
    await this.#engine.run(signal);
  }

  #makeEngine(mode: ProxyMode): Engine {
    const { families, log } = this.#options;
    const conntrackObserver = conntrackLog(log);
    const engine = new Engine({
      ...this.#options,
      mode,
      state: this.#state,
      observer: this.#observer(),
      conntrackObserver: (event) => {
        this.#metrics.conntrack.observe(event);
        conntrackObserver(event);
      },
    });
    const { primary } = engine.nodeIPs;
    if (!families.includes(primary)) {
      throw new Error(`no support for primary IP family "${primary}": the kernel has it disabled`);
    }
    log.info({ families, primary }, 'Serving these IP families');
    return engine;
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
        this.#engine?.wake();
      },
      synced: (resource) => {
        log.info({ resource }, 'First list is complete');
        this.#state.markSynced(resource);
        this.#listed.add(resource);
        this.#bell.ring();
        this.#engine?.wake();
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
