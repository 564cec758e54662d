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
  /** What is under way, and how many transactions each of it has. */
  readonly #commits = new Map<Promise<unknown>, number>();
  #completed = 0;
  #readers = 0;
  #readable: Promise<void> | undefined;
  #release: (() => void) | undefined;

  /** Our commits that are in force for certain. */
  get completed(): number {
    return this.#completed;
  }

  /** Our commits that may be in force. */
  get started(): number {
    let started = this.#completed;
    for (const transactions of this.#commits.values()) started += transactions;
    return started;
  }

  /**
   * Whether the generation has moved since by more than our own commits explain. Where there is
   * none, nothing tells what others did.
   */
  async movedByOthers({ generation, commits }: Moment, reader: Kernel): Promise<boolean> {
    if (generation === undefined) return false;
    const fewest = this.completed - commits;
    const now = await reader.generation().catch(() => undefined);
    const most = this.started - commits;
    if (now === undefined) return true;
    const moved = (now - generation) >>> 0;
    return moved < fewest || moved > most;
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
    this.#commits.set(running, transactions);
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
    await Promise.allSettled(this.#commits.keys());
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
