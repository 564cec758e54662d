/**
 * Runs one mode after another, and in each mode one engine after another. Rules outlive what made
 * them: the next engine of the same mode adopts them, another mode removes them, but only when its
 * own rules have been read back from the kernel as wanted.
 */
import type { Config } from './config/config.ts';
import { Engine, type EngineOptions } from './engine.ts';
import type { HostFiles } from './host/files.ts';
import type { ModeName, ProxyMode } from './modes/mode.ts';
import type { Node } from './state/types.ts';
import { findStrangers } from './takeover/strangers.ts';
import { Takeover, type TakeoverEvent } from './takeover/takeover.ts';

export interface SuccessionOptions extends Omit<EngineOptions, 'config' | 'mode'> {
  /** As of now. */
  readonly config: () => Config;
  /** Every mode of this build: any of them may have run before. */
  readonly modes: readonly ProxyMode[];
  readonly host: HostFiles | undefined;
  /** This mode runs from now on. */
  readonly running: (mode: ModeName) => void;
  readonly takeoverObserver: (event: TakeoverEvent) => void;
}

export class Succession {
  readonly #options: SuccessionOptions;
  #mode: ProxyMode;
  #engine: Engine | undefined;
  /** The Node that the engine was made for. */
  #madeFor: Node | undefined;
  /** Ends the engine, so that another takes its place. */
  #renewal = new AbortController();
  /** Ends all that runs in this mode, so that another mode takes its place. */
  #reign = new AbortController();

  constructor(mode: ProxyMode, options: SuccessionOptions) {
    this.#mode = mode;
    this.#options = options;
  }

  /** The mode that runs, or is about to. */
  get mode(): ModeName {
    return this.#mode.name;
  }

  get engine(): Engine | undefined {
    return this.#engine;
  }

  get madeFor(): Node | undefined {
    return this.#madeFor;
  }

  /** All that the source has said so far is in force in the kernel, or set aside. */
  get settled(): boolean {
    return !this.#renewal.signal.aborted && (this.#engine?.settled ?? false);
  }

  /** The configuration, or what a local pod is, has changed: makes another engine. */
  renew(): void {
    this.#renewal.abort();
  }

  /** Another mode is to carry the traffic. */
  switchTo(mode: ProxyMode): void {
    this.#mode = mode;
    this.#renewal.abort();
    this.#reign.abort();
  }

  /** Until `signal` aborts and the batch in flight is over; the rules stay. */
  async run(signal: AbortSignal): Promise<void> {
    const { kernel, takeoverObserver } = this.#options;
    for (const stranger of await findStrangers(kernel)) {
      takeoverObserver({ kind: 'stranger', stranger });
    }
    while (!signal.aborted) await this.#runMode(this.#mode, signal);
  }

  async #runMode(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    const reign = new AbortController();
    this.#reign = reign;
    this.#options.running(mode.name);
    const ending = AbortSignal.any([signal, reign.signal]);
    const parts = [this.#runEngines(mode, ending), this.#takeOver(mode, ending)];
    try {
      await Promise.all(parts);
    } finally {
      reign.abort();
      // What is being removed may be what the next mode is about to make.
      await Promise.allSettled(parts);
    }
  }

  async #runEngines(mode: ProxyMode, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const renewal = new AbortController();
      this.#renewal = renewal;
      this.#madeFor = this.#options.state.node;
      this.#engine = new Engine({ ...this.#options, config: this.#options.config(), mode });
      await this.#engine.run(AbortSignal.any([signal, renewal.signal]));
    }
  }

  #takeOver({ name }: ProxyMode, signal: AbortSignal): Promise<void> {
    const { clock, kernel, modes, takeoverObserver } = this.#options;
    const takeover = new Takeover({
      kernel,
      mode: name,
      modes,
      clock,
      verify: async () => this.#engine?.verify(),
      observer: takeoverObserver,
    });
    return takeover.run(signal);
  }
}
