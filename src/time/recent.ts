/** Results of expensive questions, for example to the kernel, for several callers that ask them. */
import type { Clock } from './clock.ts';

/** Results that are kept. */
const resultsMax = 16;

interface Recent<T> {
  /** `Clock.now` until which it serves; infinite while it is under way. */
  untilMs: number;
  readonly result: Promise<T>;
}

interface RecentResultsOptions<T> {
  readonly clock: Pick<Clock, 'now'>;
  /** How long a result serves, from when it was asked for. Default 0: while it is under way. */
  readonly keepMs?: number;
  /** A result that took t to make serves for `restFactor * t` more at least. Default 0. */
  readonly restFactor?: number;
  /** Whether a result is small enough to be kept. Default: any is. */
  readonly isKept?: (result: T) => boolean;
}

export class RecentResults<T> {
  readonly #options: RecentResultsOptions<T>;
  /** By question, the oldest first. */
  readonly #results = new Map<string, Recent<T>>();

  constructor(options: RecentResultsOptions<T>) {
    this.#options = options;
  }

  /** Calls `ask` unless its last result still serves or is under way. A failure is not kept. */
  of(question: string, ask: () => Promise<T>): Promise<T> {
    this.#forget();
    const known = this.#results.get(question);
    if (known !== undefined) return known.result;
    const { clock, isKept, keepMs = 0, restFactor = 0 } = this.#options;
    const askedAtMs = clock.now();
    const asked: Recent<T> = { untilMs: Number.POSITIVE_INFINITY, result: ask() };
    this.#results.set(question, asked);
    const drop = (): void => {
      if (this.#results.get(question) === asked) this.#results.delete(question);
    };
    asked.result.then((result) => {
      const madeAtMs = clock.now();
      const restedMs = madeAtMs + restFactor * (madeAtMs - askedAtMs);
      asked.untilMs = Math.max(askedAtMs + keepMs, restedMs);
      if (asked.untilMs <= madeAtMs || isKept?.(result) === false) drop();
    }, drop);
    return asked.result;
  }

  #forget(): void {
    const nowMs = this.#options.clock.now();
    for (const [question, { untilMs }] of this.#results) {
      if (untilMs <= nowMs || this.#results.size >= resultsMax) this.#results.delete(question);
    }
  }
}

/** Waits for `work`, for `ms` at most. Rejects as it does, in that time. */
export async function waitedAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    work.then(() => resolve(), reject).finally(() => clearTimeout(timer));
  });
}
