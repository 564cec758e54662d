import { performance } from 'node:perf_hooks';

/** The time, as an interface so that tests can set it. */
export interface Clock {
  /** Milliseconds since any moment: monotonic, with fractions. */
  now(): number;
  /** Milliseconds since the epoch. */
  wallMs(): number;
  /** Calls once, after `delayMs`. The result cancels it. */
  after(delayMs: number, call: () => void): () => void;
  /** Resolves after one turn of the event loop. */
  turn(): Promise<void>;
  /** Uniform in [0, 1): jitter. */
  random(): number;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wallMs: () => Date.now(),
  after: (delayMs, call) => {
    const timer = setTimeout(call, delayMs);
    return () => clearTimeout(timer);
  },
  turn: () => new Promise((resolve) => setImmediate(resolve)),
  random: () => Math.random(),
};

/** Wakes one waiter. A wakeup without a waiter is kept for the next wait. */
export class Wakeup {
  readonly #clock: Clock;
  #isWoken = false;
  #resolve: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wake(): void {
    this.#isWoken = true;
    this.#resolve?.();
  }

  /** Resolves to true at the next wakeup, to false after `timeoutMs` (undefined = never). */
  async wait(timeoutMs?: number): Promise<boolean> {
    if (!this.#isWoken && (timeoutMs === undefined || timeoutMs > 0)) {
      await new Promise<void>((resolve) => {
        const cancel =
          timeoutMs === undefined ? () => {} : this.#clock.after(Math.ceil(timeoutMs), resolve);
        this.#resolve = () => {
          cancel();
          resolve();
        };
      });
      this.#resolve = undefined;
    }
    const isWoken = this.#isWoken;
    this.#isWoken = false;
    return isWoken;
  }
}

/** `atMs` undefined = never. */
export function isDue(atMs: number | undefined, now: number): boolean {
  return atMs !== undefined && now >= atMs;
}

/** Resolves after `ms`, or when `signal` aborts. */
export function pause(
  ms: number,
  signal: AbortSignal,
  clock: Pick<Clock, 'after'> = systemClock,
): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      cancel();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const cancel = clock.after(ms, done);
    signal.addEventListener('abort', done, { once: true });
  });
}
