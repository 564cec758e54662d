import type { ApplyResult, Kernel, KernelReader } from '../kernel/kernel.ts';

/** A moment of reading: the generation, and the number of our own commits until then. */
export interface Moment {
  /** Undefined = what was read is in no ruleset, as links are. */
  readonly generation: number | undefined;
  readonly commits: number;
}

/** Who has written to the ruleset since a moment; `unknown` = the generation does not show it. */
export type Writers = 'others' | 'only us' | 'unknown';

/**
 * The ruleset of one network namespace, which all families share. Its generation counts the
 * commits of all programs, and a dump is consistent only without a commit during it.
 */
export class Ruleset {
  /** Commits in flight. */
  readonly #commits = new Set<Promise<unknown>>();
  #completed = 0;
  #readers = 0;
  /** Resolves when the last reader is done; undefined: none reads. */
  #reading: PromiseWithResolvers<void> | undefined;

  /** The number of our commits that are in force. */
  get completed(): number {
    return this.#completed;
  }

  /**
   * Whether others have moved the generation since the moment; false where there is no generation.
   * The generation is read while we commit nothing: a commit in flight could hide one of others.
   */
  movedByOthers({ generation, commits }: Moment, reader: KernelReader): Promise<boolean> {
    if (generation === undefined) return Promise.resolve(false);
    return this.readAlone(async () => {
      const now = await reader.generation().catch(() => undefined);
      return now === undefined || (now - generation) >>> 0 !== this.completed - commits;
    });
  }

  /** The generation without our own commits: it is the same until others commit. */
  generationOfOthers(reader: KernelReader): Promise<number> {
    return this.readAlone(async () => ((await reader.generation()) - this.completed) >>> 0);
  }

  /** Who has written since the moment. */
  async writersSince(moment: Moment, reader: KernelReader): Promise<Writers> {
    if (moment.generation === undefined) return 'unknown';
    return (await this.movedByOthers(moment, reader)) ? 'others' : 'only us';
  }

  /** Applies one transaction to another table of ours. */
  apply(kernel: Pick<Kernel, 'apply'>, ops: Uint8Array): Promise<ApplyResult> {
    return this.commit(1, () => kernel.apply(ops));
  }

  /** Runs a batch with this number of transactions when exclusive reads are over. */
  async commit(transactions: number, run: () => Promise<ApplyResult>): Promise<ApplyResult> {
    while (this.#reading !== undefined) await this.#reading.promise;
    const running = run();
    this.#commits.add(running);
    try {
      const result = await running;
      if (result.kind === 'applied') this.#completed += transactions;
      return result;
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
