import type { KernelState } from '../modes/mode.ts';
import type { Parts } from './parts.ts';
import type { Moment } from './ruleset.ts';

/** What was read while we wrote nothing. */
interface Snapshot {
  readonly found: KernelState;
  readonly readAt: Moment;
}

/** Reads the kernel for repairs. */
export class Snapshots {
  readonly #parts: Parts;
  #ahead: Promise<Snapshot | undefined> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Reads for the next `take`. Most of it is the kernel's work, so that the caller can
   * do other work. Resolves to undefined when it fails.
   */
  begin(): Promise<Snapshot | undefined> {
    this.#ahead = this.#read().catch(() => undefined);
    return this.#ahead;
  }

  /**
   * Resolves to what `begin` has read. If that failed, or another program has committed since, it reads
   * again. Rejects with what the planner and the kernel reject with.
   */
  async take(): Promise<Snapshot> {
    const ahead = await this.#ahead;
    this.#ahead = undefined;
    const { kernel, ruleset } = this.#parts;
    const isStale = ahead === undefined || (await ruleset.movedByOthers(ahead.readAt, kernel));
    return isStale ? this.#read() : ahead;
  }

  async #read(): Promise<Snapshot> {
    const { kernel, newPacer, planner, ruleset } = this.#parts;
    const prepared = await planner.prepare(kernel, (ops) =>
      ruleset.commit(1, () => kernel.apply(ops)),
    );
    return ruleset.readAlone(async () => {
      const found = await prepared.observe(kernel, newPacer().pause);
      const { generation } = found;
      return { found, readAt: { generation, commits: ruleset.completed } };
    });
  }
}
