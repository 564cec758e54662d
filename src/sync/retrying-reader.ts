/** Reads the kernel while our batches change it. */
import type { DumpResult, KernelReader } from '../kernel/kernel.ts';
import type { Ruleset } from './ruleset.ts';

/**
 * A dump that a commit has interrupted is made again while our commits wait. They wait for single
 * dumps only, and a reading ends however many commits there are.
 */
export class RetryingReader implements KernelReader {
  readonly #kernel: KernelReader;
  readonly #ruleset: Ruleset;
  #commits: number;

  constructor(kernel: KernelReader, ruleset: Ruleset) {
    this.#kernel = kernel;
    this.#ruleset = ruleset;
    this.#commits = ruleset.completed;
  }

  /** Our commits that were in force when the generation was last read, or else at the start. */
  get commits(): number {
    return this.#commits;
  }

  async dump(...args: Parameters<KernelReader['dump']>): Promise<DumpResult> {
    const result = await this.#kernel.dump(...args);
    if (result.consistent) return result;
    return this.#ruleset.readAlone(() => this.#kernel.dump(...args));
  }

  generation(): Promise<number> {
    return this.#ruleset.readAlone(async () => {
      const generation = await this.#kernel.generation();
      this.#commits = this.#ruleset.completed;
      return generation;
    });
  }
}
