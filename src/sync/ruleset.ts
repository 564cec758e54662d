import type { ApplyResult, KernelReader } from '../kernel/kernel.ts';
import { generationOfOthers } from '../kernel/steady.ts';

/** Who has written to the ruleset; `unknown` = the generation does not show it. */
export type Writers = 'others' | 'only us' | 'unknown';

/** Who has written since the ruleset was read at this generation (`KernelState`). */
export async function writersSince(
  generation: number | undefined,
  kernel: KernelReader,
): Promise<Writers> {
  if (generation === undefined) return 'unknown';
  const now = await generationOfOthers(kernel).catch(() => undefined);
  return now === generation ? 'only us' : 'others';
}

/**
 * The ruleset of one network namespace, which all families share. Its generation counts the
 * commits of all programs, and a dump is consistent only without a commit during it.
 */
export class Ruleset {
  /** Commits in flight. */
  readonly #commits = new Set<Promise<unknown>>();
  #readers = 0;
  /** Resolves when the last reader is done; undefined: none reads. */
  #reading: PromiseWithResolvers<void> | undefined;

  /** Runs a batch when exclusive reads are over. */
  async commit(run: () => Promise<ApplyResult>): Promise<ApplyResult> {
    while (this.#reading !== undefined) await this.#reading.promise;
    const running = run();
    this.#commits.add(running);
    try {
      return await running;
    } finally {
      this.#commits.delete(running);
    }
  }

  /** Runs a read while we commit nothing, in any family. Several may run at the same time. */
  async readAlone<T>(read: () => Promise<T>): Promise<T> {
    this.#readers += 1;
    this.#reading ??= Promise.withResolvers();
    await Promise.allSettled(this.#commits);
    try {
      return await read();
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) {
        this.#reading.resolve();
        this.#reading = undefined;
      }
    }
  }
}
