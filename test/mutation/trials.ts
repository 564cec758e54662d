/** One test that is repeated with one mutant after the other. */

/** `unclear`: the test then failed without a mutant, too, so that a new process must decide. */
export type Result = 'begun' | 'passed' | 'killed' | 'unclear';

export class Trials {
  readonly #waiting: number[];
  readonly #isKilled: (id: number) => boolean;
  readonly #report: (id: number, result: Result) => void;
  #current = 0;
  /** The test has failed with it, and is repeated without. */
  #suspect: number | undefined;

  constructor(
    ids: readonly number[],
    isKilled: (id: number) => boolean,
    report: (id: number, result: Result) => void,
  ) {
    this.#waiting = [...ids];
    this.#isKilled = isKilled;
    this.#report = report;
  }

  /** The mutant for the next repetition, 0 = none; undefined: no other is needed. */
  next(hasFailed: boolean): number | undefined {
    if (this.#suspect !== undefined) {
      if (hasFailed) return this.#giveUp(this.#suspect);
      this.#report(this.#suspect, 'killed');
    } else if (this.#current > 0) {
      if (hasFailed) {
        this.#suspect = this.#current;
        return 0;
      }
      this.#report(this.#current, 'passed');
    }
    this.#suspect = undefined;
    const current = this.#waiting.shift();
    if (current === undefined) return undefined;
    this.#current = current;
    if (this.#isKilled(current)) return this.#skipped();
    this.#report(current, 'begun');
    return current;
  }

  #skipped(): number | undefined {
    this.#current = 0;
    return this.next(false);
  }

  #giveUp(suspect: number): undefined {
    for (const id of [suspect, ...this.#waiting]) this.#report(id, 'unclear');
  }
}
