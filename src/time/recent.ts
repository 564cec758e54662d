/** Results of expensive questions, for example to the kernel, for several callers that ask them. */
import type { Clock } from './clock.ts';
import { restAfter } from './rest.ts';

const resultsMaxDefault = 16;

interface Recent<T> {
  /** `Clock.now` until which it serves; infinite while it is under way. */
  untilMs: number;
  readonly result: Promise<T>;
}

interface RecentResultsOptions<T> {
  readonly clock: Pick<Clock, 'now'>;
  /** How long a result serves, from when it was asked for. Default 0: while it is under way. */
  readonly keepMs?: number | ((result: T) => number);
  /** A result that took t to make serves for `restFactor * t` more at least. Default 0. */
  readonly restFactor?: number;
  /** Whether a result is small enough to be kept. Default: any is. */
  readonly isKept?: (result: T) => boolean;
  /** The most results; the oldest is forgotten first. Default 16. */
  readonly resultsMax?: number;
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
    const { clock, isKept, keepMs = 0, restFactor = 0 } = this.#options;
    const { resultsMax = resultsMaxDefault } = this.#options;
    const askedAtMs = clock.now();
    for (const [one, { untilMs }] of this.#results) {
      if (untilMs <= askedAtMs) this.#results.delete(one);
    }
    const known = this.#results.get(question);
    if (known !== undefined) return known.result;
    const [oldest = question] = this.#results.keys();
    if (this.#results.size >= resultsMax) this.#results.delete(oldest);
    const asked: Recent<T> = { untilMs: Number.POSITIVE_INFINITY, result: ask() };
    this.#results.set(question, asked);
    const drop = (): void => {
      if (this.#results.get(question) === asked) this.#results.delete(question);
    };
    asked.result.then((result) => {
      const madeAtMs = clock.now();
      const restedMs = madeAtMs + restAfter(madeAtMs - askedAtMs, restFactor);
      const ownMs = typeof keepMs === 'number' ? keepMs : keepMs(result);
      asked.untilMs = Math.max(askedAtMs + ownMs, restedMs);
      if (asked.untilMs <= madeAtMs || isKept?.(result) === false) drop();
    }, drop);
    return asked.result;
  }
}

/** Waits for `work`, for `ms` at most. Rejects as it does, in that time. */
export async function waitedAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    work.then(() => resolve(), reject).finally(() => clearTimeout(timer));
  });
}
