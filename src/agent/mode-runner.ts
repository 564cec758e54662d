/**
 * Runs one mode after another, and in each mode one engine after another. Rules outlive the engine
 * that created them: the next engine of the same mode adopts them. Another mode removes them when
 * its own rules were read back from the kernel.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ProxyMode } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import { findForeignTables } from '../takeover/foreign-tables.ts';
import { Takeover, type TakeoverEvent } from '../takeover/takeover.ts';
import { Engine, type EngineOptions } from './engine.ts';
import type { EngineSettings } from './engine-settings.ts';

/** What is run. */
interface Runs {
  readonly mode: ProxyMode;
  engine: Engine | undefined;
}

interface ModeRunnerOptions extends Omit<EngineOptions, 'settings' | 'mode'> {
  /** The settings for an engine of this mode at present. */
  readonly settings: (mode: ProxyMode) => EngineSettings;
  /** Every mode of this build: any of them may have run before. */
  readonly modes: readonly ProxyMode[];
  /** Called with the mode that runs from now on. */
  readonly running: (mode: ProxyMode) => void;
  /** Where kube-proxy's table of mode nftables stays for other programs (`src/takeover/sign.ts`). */
  readonly signed: (mode: ProxyMode) => readonly Family[];
  readonly takeoverObserver: (event: TakeoverEvent) => void;
  /** Awaited before an engine with these settings runs. */
  readonly starting: (settings: EngineSettings) => Promise<void>;
}

export class ModeRunner {
  readonly #agent: Runs;
  readonly #options: ModeRunnerOptions;
  /** Undefined: another one is about to run. */
  #running: Engine | undefined;
  /** The settings that the engine was made for. */
  #settings: EngineSettings | undefined;
  #takeover: Takeover | undefined;
  /** Ends the engine, so that another replaces it. */
  #engineEnd = new AbortController();
  /** Ends everything in this mode, so that another mode replaces it. */
  #modeEnd = new AbortController();

  constructor(agent: Runs, options: ModeRunnerOptions) {
    this.#agent = agent;
    this.#options = options;
  }

  /** See `Engine.upToDate`; false while another one is about to run. */
  get upToDate(): boolean {
    return this.#running?.upToDate === true;
  }

  /** Configuration, node or host may have changed: replaces the engine if its settings have. */
  follow(): void {
    if (this.#settings === undefined) return;
    const next = this.#options.settings(this.#agent.mode);
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
    const { kernel, takeoverObserver } = this.#options;
    for (const table of await findForeignTables(kernel)) {
      takeoverObserver({ kind: 'foreign-table', table });
    }
    while (!signal.aborted) await this.#runMode(this.#agent.mode, signal);
  }

  async #runMode(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    const modeEnd = new AbortController();
    this.#modeEnd = modeEnd;
    this.#options.running(mode);
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
      const settings = this.#options.settings(mode);
      this.#settings = settings;
      await this.#options.starting(settings);
      const engine = new Engine({ ...this.#options, settings, mode });
      this.#agent.engine = engine;
      this.#running = engine;
      await engine.run(AbortSignal.any([signal, engineEnd.signal]));
    }
  }

  #takeOver(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    const { clock, kernel, modes, signed, takeoverObserver } = this.#options;
    this.#takeover = new Takeover({
      kernel,
      mode,
      modes,
      clock,
      signed: () => signed(mode),
      verify: async () => this.#agent.engine?.verify(),
      observer: takeoverObserver,
    });
    return this.#takeover.run(signal);
  }
}
