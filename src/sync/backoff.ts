/** How long to wait before another attempt. */
import type { KernelFailure } from '../kernel/kernel.ts';
import type { Clock } from './clock.ts';

export interface BackoffLimits {
  /** Delay after the first failure; 0 = at once. */
  readonly firstMs: number;
  /** Delay after the second failure; it doubles from there. */
  readonly secondMs: number;
  readonly maxMs: number;
}

/** The delay before attempt `failures + 1`, with a fifth of jitter either way; at most `maxMs`. */
export function backoffMs(limits: BackoffLimits, failures: number, random: number): number {
  if (failures <= 1) return limits.firstMs;
  const exact = limits.secondMs * 2 ** Math.min(failures - 2, 30);
  return Math.min(limits.maxMs, exact * (0.8 + 0.4 * random));
}

/** The longest delay while another process holds what is needed: to ask again costs little. */
const heldMs = 250;

/**
 * Counts failures of one activity. Success does not clear the count at once: work that fails and
 * succeeds in turns must slow down too. A quiet time of twice the longest delay clears it.
 */
export class Backoff {
  readonly #limits: BackoffLimits;
  readonly #clock: Clock;
  #failures = 0;
  #lastMs = 0;

  constructor(limits: BackoffLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Records a failure; returns how long to wait before trying again. */
  failed(failures: readonly KernelFailure[] = []): number {
    if (failures.some(({ isHeld }) => isHeld)) return heldMs;
    const now = this.#clock.now();
    if (now - this.#lastMs > 2 * this.#limits.maxMs) this.#failures = 0;
    this.#failures += 1;
    this.#lastMs = now;
    return backoffMs(this.#limits, this.#failures, this.#clock.random());
  }
}
