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

  constructor(kernel: KernelReader, ruleset: Ruleset) {
    this.#kernel = kernel;
    this.#ruleset = ruleset;
  }

  get commits(): number {
    return this.#kernel.commits;
  }

  async dump(...args: Parameters<KernelReader['dump']>): Promise<DumpResult> {
    const result = await this.#kernel.dump(...args);
    if (result.consistent) return result;
    return this.#ruleset.readAlone(() => this.#kernel.dump(...args));
  }

  generation(): Promise<number> {
    return this.#kernel.generation();
  }
}
