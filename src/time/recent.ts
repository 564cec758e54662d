/**
 * Results that are at most a second old, for callers that repeat expensive questions, for example
 * to the kernel.
 */

const keepMs = 1000;
/** Results that are kept. */
const resultsMax = 16;

interface Recent<T> {
  readonly askedAtMs: number;
  readonly result: Promise<T>;
}

export class RecentResults<T> {
  readonly #clock: { now(): number };
  readonly #isKept: (result: T) => boolean;
  /** By question, the oldest first. */
  readonly #results = new Map<string, Recent<T>>();

  /** `isKept`: whether a result is small enough. */
  constructor(clock: { now(): number }, isKept: (result: T) => boolean = () => true) {
    this.#clock = clock;
    this.#isKept = isKept;
  }

  /** Asks again if the last answer to this question is too old, or failed. */
  async of(question: string, ask: () => Promise<T>): Promise<T> {
    this.#forget();
    const known = this.#results.get(question);
    if (known !== undefined) return known.result;
    const asked: Recent<T> = { askedAtMs: this.#clock.now(), result: ask() };
    this.#results.set(question, asked);
    try {
      const answer = await asked.result;
      if (!this.#isKept(answer)) this.#drop(question, asked);
      return answer;
    } catch (error) {
      this.#drop(question, asked);
      throw error;
    }
  }

  /** A newer result of the same question stays. */
  #drop(question: string, asked: Recent<T>): void {
    if (this.#results.get(question) === asked) this.#results.delete(question);
  }

  #forget(): void {
    const now = this.#clock.now();
    for (const [question, { askedAtMs }] of this.#results) {
      const isOld = now - askedAtMs >= keepMs;
      if (!isOld && this.#results.size < resultsMax) return;
      this.#results.delete(question);
    }
  }
}
