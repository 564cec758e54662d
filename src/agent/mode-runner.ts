/**
 * Runs one mode after another, and in each mode one engine after another. Rules outlive the engine
 * that created them: the next engine of the same mode adopts them. Another mode removes them when
 * its own rules were read back from the kernel.
 */
import { isDeepStrictEqual } from 'node:util';
import { isConntrackLiberal } from '../host/conntrack.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import { findForeignTables } from '../takeover/foreign-tables.ts';
import { keepsProxyTable } from '../takeover/sign.ts';
import { Takeover } from '../takeover/takeover.ts';
import type { Agent } from './agent.ts';
import { Engine } from './engine.ts';
import { type EngineSettings, engineSettings } from './engine-settings.ts';

export class ModeRunner {
  readonly #agent: Agent;
  /** Undefined: another one is about to run. */
  #running: Engine | undefined;
  /** The settings that the engine was made for. */
  #settings: EngineSettings | undefined;
  #takeover: Takeover | undefined;
  /** Ends the engine, so that another replaces it. */
  #engineEnd = new AbortController();
  /** Ends everything in this mode, so that another mode replaces it. */
  #modeEnd = new AbortController();
  /** As last read. */
  #isLiberal: boolean;

  /** Throws if a sysctl cannot be read. */
  constructor(agent: Agent) {
    this.#agent = agent;
    this.#isLiberal = isLiberalAt(agent);
  }

  /** See `Engine.upToDate`; false while another one is about to run. */
  get upToDate(): boolean {
    return this.#running?.upToDate === true;
  }

  /** Configuration, node or host may have changed: replaces the engine if its settings have. */
  follow(): void {
    if (this.#settings === undefined) return;
    const next = this.#settingsOf(this.#agent.mode);
    if (!isDeepStrictEqual(next, this.#settings)) this.#endEngine();
    this.#takeover?.wake();
  }

  #endEngine(): void {
    this.#running = undefined;
    this.#engineEnd.abort();
  }

  /** `agent.mode` is another one. */
  switchMode(): void {
    this.#endEngine();
    this.#modeEnd.abort();
  }

  /** Until `signal` aborts and the batch in flight is over; the rules stay. */
  async run(signal: AbortSignal): Promise<void> {
    const { kernel, observers } = this.#agent;
    for (const table of await findForeignTables(kernel, [...this.#agent.options.modes.values()])) {
      observers.takeover({ kind: 'foreign-table', table });
    }
    while (!signal.aborted) await this.#runMode(this.#agent.mode, signal);
  }

  async #runMode(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    const modeEnd = new AbortController();
    this.#modeEnd = modeEnd;
    this.#agent.observers.metrics.running(mode);
    const ending = AbortSignal.any([signal, modeEnd.signal]);
    const parts = [this.#runEngines(mode, ending), this.#takeOver(mode, ending)];
    try {
      await Promise.all(parts);
    } finally {
      modeEnd.abort();
      // A removal must end before the next mode starts, which may create the same objects.
      await Promise.allSettled(parts);
    }
  }

  async #runEngines(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const engineEnd = new AbortController();
      this.#engineEnd = engineEnd;
      const settings = this.#settingsOf(mode);
      this.#settings = settings;
      // Removes the programs of an earlier engine, unless this one uses them.
      if (!isSecond(this.#agent)) {
        await this.#agent.connectTime.stale.end(settings.connectTime !== undefined);
      }
      const engine = this.#makeEngine(mode, settings);
      this.#agent.engine = engine;
      this.#running = engine;
      await engine.run(AbortSignal.any([signal, engineEnd.signal]));
    }
  }

  #makeEngine(mode: ProxyMode, settings: EngineSettings): Engine {
    const { connectionLimits, connectTime, eventHistory, failureDetection, fastPath, localhost } =
      this.#agent;
    const { observers, options, problemIndex, state, unrouted } = this.#agent;
    return new Engine({
      ...{ ...options, settings, mode, state, localhost },
      observer: (event) => observers.sync(event),
      conntrackObserver: observers.conntrack,
      recent: eventHistory.recent,
      followers: [
        ...[observers.serviceHealth, problemIndex, unrouted, fastPath, failureDetection],
        connectionLimits,
      ],
      health: failureDetection,
      excludedPods: connectTime.excludedPods,
    });
  }

  #settingsOf(mode: ProxyMode): EngineSettings {
    const { config, connectTime, enabledFamilies, followedNode } = this.#agent;
    return engineSettings({
      config,
      node: followedNode,
      mode,
      families: enabledFamilies,
      isLiberal: this.#readLiberal(),
      connectTime: connectTime.placement,
    });
  }

  /** If it cannot be read, for lack of file descriptors or memory, the previous value is used. */
  #readLiberal(): boolean {
    try {
      this.#isLiberal = isLiberalAt(this.#agent);
    } catch (error) {
      this.#agent.options.log.warn(
        { err: (error as Error).message },
        'Could not read sysctl; taking it as it was',
      );
    }
    return this.#isLiberal;
  }

  async #takeOver(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    const agent = this.#agent;
    if (isSecond(agent)) return;
    this.#takeover = new Takeover({
      ...{ kernel: agent.kernel, clock: agent.clock, mode },
      // Any mode of this build may have run before.
      modes: [...agent.options.modes.values()],
      signed: () => (keepsProxyTable(agent.config, mode) ? agent.enabledFamilies : []),
      verify: async () => agent.engine?.verify(),
      observer: agent.observers.takeover,
    });
    return this.#takeover.run(signal);
  }
}

/** Whether the rules of another proxy, which stay, serve the other Services. */
function isSecond({ config }: Agent): boolean {
  return config.serviceProxyName !== '';
}

function isLiberalAt({ host }: Agent): boolean {
  return host !== undefined && isConntrackLiberal(host);
}
