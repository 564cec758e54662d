import type { Kernel } from '../kernel/kernel.ts';

/** When something was read: the generation then, and how many commits were ours by then. */
export interface Moment {
  /** Undefined: of something that is in no ruleset, such as links. */
  readonly generation: number | undefined;
  readonly commits: number;
}

/** Who has written to the kernel, as far as its generation tells. */
export type Writers = 'others' | 'only us' | 'unknown';

/**
 * The ruleset of one network namespace, which all families share: its generation counts the
 * commits of everyone, and a dump is only consistent while nobody commits.
 */
export class Ruleset {
  /** What is under way. */
  readonly #commits = new Set<Promise<unknown>>();
  #completed = 0;
  #readers = 0;
  #readable: Promise<void> | undefined;
  #release: (() => void) | undefined;

  /** Our commits that are in force for certain. */
  get completed(): number {
    return this.#completed;
  }

  /**
   * Whether the generation has moved since by anything but our own commits. Where there is none,
   * nothing tells what others did. It is asked while we commit nothing: a commit of ours that may
   * or may not be in force yet would hide one of others.
   */
  movedByOthers({ generation, commits }: Moment, reader: Kernel): Promise<boolean> {
    if (generation === undefined) return Promise.resolve(false);
    return this.readAlone(async () => {
      const now = await reader.generation().catch(() => undefined);
      return now === undefined || (now - generation) >>> 0 !== this.completed - commits;
    });
  }

  /** Who has written since. */
  async writersSince(moment: Moment, reader: Kernel): Promise<Writers> {
    if (moment.generation === undefined) return 'unknown';
    return (await this.movedByOthers(moment, reader)) ? 'others' : 'only us';
  }

  /**
   * Runs a batch of so many transactions, after exclusive reads are over. `succeeded` tells whether
   * it took effect.
   */
  async commit<T>(
    transactions: number,
    run: () => Promise<T>,
    succeeded: (result: T) => boolean,
  ): Promise<T> {
    while (this.#readable !== undefined) await this.#readable;
    const running = run();
    this.#commits.add(running);
    try {
      const result = await running;
      if (succeeded(result)) this.#completed += transactions;
      return result;
    } finally {
      this.#commits.delete(running);
    }
  }

  /** Runs a read while we commit nothing, in any family. Several may run at the same time. */
  async readAlone<T>(read: () => Promise<T>): Promise<T> {
    this.#readers += 1;
    this.#readable ??= new Promise((resolve) => {
      this.#release = resolve;
    });
    await Promise.allSettled(this.#commits);
    try {
      return await read();
    } finally {
      this.#readers -= 1;
      if (this.#readers === 0) {
        this.#readable = undefined;
        this.#release?.();
      }
    }
  }
}
