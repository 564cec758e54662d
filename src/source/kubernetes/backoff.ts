/** Full jitter: a random time up to a bound that doubles with each attempt, up to `maxMs`. */
export class Backoff {
  readonly #baseMs: number;
  readonly #maxMs: number;
  #attempts = 0;

  constructor(baseMs: number, maxMs: number) {
    this.#baseMs = baseMs;
    this.#maxMs = maxMs;
  }

  /** The next delay, at most `maxMs`. */
  nextMs(maxMs = this.#maxMs): number {
    const boundMs = Math.min(maxMs, this.#maxMs, this.#baseMs * 2 ** this.#attempts);
    this.#attempts += 1;
    return Math.random() * boundMs;
  }

  reset(): void {
    this.#attempts = 0;
  }
}

/** Resolves after `ms`, or when `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
