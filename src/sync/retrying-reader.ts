/** Reads the kernel while our batches change it. */
import type { ApplyResult, DumpResult, Kernel } from '../kernel/kernel.ts';
import type { Ruleset } from './ruleset.ts';

/**
 * A dump that a commit has interrupted is made again while our commits wait. They wait for single
 * dumps only, and a reading ends however many commits there are.
 */
export class RetryingReader implements Kernel {
  readonly #kernel: Kernel;
  readonly #ruleset: Ruleset;
  #commits: number;

  constructor(kernel: Kernel, ruleset: Ruleset) {
    this.#kernel = kernel;
    this.#ruleset = ruleset;
    this.#commits = ruleset.completed;
  }

  /** Our commits that were in force when the generation was last read, or else at the start. */
  get commits(): number {
    return this.#commits;
  }

  apply(ops: Uint8Array): Promise<ApplyResult> {
    return this.#kernel.apply(ops);
  }

  async dump(...args: Parameters<Kernel['dump']>): Promise<DumpResult> {
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

  isOwn(port: number): boolean {
    return this.#kernel.isOwn(port);
  }

  watch(...args: Parameters<Kernel['watch']>): () => void {
    return this.#kernel.watch(...args);
  }

  close(): void {
    this.#kernel.close();
  }
}
