/**
 * The ruleset of one network namespace, which all families share: its generation counts the
 * commits of everyone, and a dump is only consistent while nobody commits.
 */
export class Ruleset {
  readonly #commits = new Set<Promise<unknown>>();
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
    return this.#completed + this.#commits.size;
  }

  /** Runs one commit, after exclusive reads are over. `succeeded` tells whether it took effect. */
  async commit<T>(run: () => Promise<T>, succeeded: (result: T) => boolean): Promise<T> {
    while (this.#readable !== undefined) await this.#readable;
    const running = run();
    this.#commits.add(running);
    try {
      const result = await running;
      if (succeeded(result)) this.#completed += 1;
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
