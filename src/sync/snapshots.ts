import type { KernelState } from '../modes/mode.ts';
import type { Parts } from './parts.ts';
import { writersSince } from './ruleset.ts';

/** Reads the kernel for repairs. */
export class Snapshots {
  readonly #parts: Parts;
  #ahead: Promise<KernelState | undefined> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Reads for the next `take`. Most of it is the kernel's work, so that the caller can
   * do other work. Resolves to undefined when it fails.
   */
  begin(): Promise<KernelState | undefined> {
    this.#ahead = this.#read().catch(() => undefined);
    return this.#ahead;
  }

  /**
   * Resolves to what `begin` has read. If that failed, or another program has committed since, it reads
   * again. Rejects with what the planner and the kernel reject with.
   */
  async take(): Promise<KernelState> {
    const ahead = await this.#ahead;
    this.#ahead = undefined;
    const { kernel } = this.#parts;
    const isFresh = ahead && (await writersSince(ahead.generation, kernel)) !== 'others';
    return isFresh ? ahead : this.#read();
  }

  /** Reads while we write nothing. */
  async #read(): Promise<KernelState> {
    const { kernel, newPacer, planner, ruleset } = this.#parts;
    const prepared = await planner.prepare(kernel, (ops) =>
      ruleset.commit(() => kernel.apply(ops)),
    );
    return ruleset.readAlone(() => prepared.observe(kernel, newPacer().pause));
  }
}
