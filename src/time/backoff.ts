/** How long to wait before another attempt. */
import { type Clock, systemClock } from './clock.ts';

export interface BackoffLimits {
  /** Delay after the first failure; 0 = none. */
  readonly firstMs: number;
  /** Delay after the second failure; it doubles from there. */
  readonly secondMs: number;
  readonly maxMs: number;
  /**
   * `fifth` (default): up to a fifth more or less, but for the first delay. `full`: any time up to
   * the delay, for what many nodes may ask of one server.
   */
  readonly jitter?: 'fifth' | 'full';
}

/** The delay before attempt `failures + 1`, at most `maxMs`. `random` is in [0, 1). */
export function backoffMs(limits: BackoffLimits, failures: number, random: number): number {
  const { firstMs, secondMs, maxMs, jitter = 'fifth' } = limits;
  const exact = failures <= 1 ? firstMs : secondMs * 2 ** Math.min(failures - 2, 30);
  if (jitter === 'full') return Math.min(maxMs, exact) * random;
  return failures <= 1 ? firstMs : Math.min(maxMs, exact * (0.8 + 0.4 * random));
}

/**
 * Counts failures of one activity. With `fifth`, success does not clear the count immediately: work
 * that alternately fails and succeeds must slow down, too. A quiet time of twice the longest delay
 * clears it. With `full`, only `reset` does.
 */
export class Backoff {
  readonly #limits: BackoffLimits;
  readonly #clock: Pick<Clock, 'now' | 'random'>;
  #failures = 0;
  #lastMs = 0;

  constructor(limits: BackoffLimits, clock: Pick<Clock, 'now' | 'random'>) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Records a failure; returns how long to wait before the next attempt, at most `maxMs`. */
  failed(maxMs = this.#limits.maxMs): number {
    const now = this.#clock.now();
    const isQuiet = now - this.#lastMs > 2 * this.#limits.maxMs;
    if (isQuiet && this.#limits.jitter !== 'full') this.#failures = 0;
    this.#failures += 1;
    this.#lastMs = now;
    return backoffMs({ ...this.#limits, maxMs }, this.#failures, this.#clock.random());
  }

  reset(): void {
    this.#failures = 0;
  }
}

/** The backoff for requests to the API server. */
export function requestBackoff(
  firstMs: number,
  maxMs: number,
  clock: Pick<Clock, 'now' | 'random'> = systemClock,
): Backoff {
  return new Backoff({ firstMs, secondMs: 2 * firstMs, maxMs, jitter: 'full' }, clock);
}
