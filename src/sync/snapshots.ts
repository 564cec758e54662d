import type { Kernel } from '../kernel/kernel.ts';
import type { Observation, Planner } from '../modes/mode.ts';
import { type Clock, Pacer } from './clock.ts';
import type { Ruleset } from './ruleset.ts';

export interface SnapshotOptions {
  readonly planner: Planner;
  readonly kernel: Kernel;
  readonly reader: Kernel;
  readonly clock: Clock;
  readonly ruleset: Ruleset;
  readonly sliceMs: number;
}

/** What the kernel held while we wrote nothing, and how many of our commits are in that. */
export interface Snapshot {
  readonly found: Observation;
  readonly commits: number;
}

/** Reads the kernel for repairs. */
export class Snapshots {
  readonly #options: SnapshotOptions;
  #ahead: Promise<Snapshot> | undefined;

  constructor(options: SnapshotOptions) {
    this.#options = options;
  }

  /**
   * Reads for the next `take`. Most of that is the kernel's work, and goes on beside what the
   * caller does meanwhile.
   */
  begin(): void {
    this.#ahead = this.#read();
    // `take` meets the failure.
    this.#ahead.catch(() => {});
  }

  /** Rejects with what the planner and the kernel reject with. */
  take(): Promise<Snapshot> {
    const snapshot = this.#ahead ?? this.#read();
    this.#ahead = undefined;
    return snapshot;
  }

  async #read(): Promise<Snapshot> {
    const { clock, kernel, planner, reader, ruleset, sliceMs } = this.#options;
    await planner.prepare?.(kernel);
    return ruleset.readAlone(async () => {
      const found = await planner.observe(reader, new Pacer(clock, sliceMs).pause);
      return { found, commits: ruleset.completed };
    });
  }
}
