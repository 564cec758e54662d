import type { Clock } from './clock.ts';

/** What work has cost beyond its share of the time, so that it can rest until that is made up. */
export class Debt {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #share: number;
  #owedMs = 0;
  #asOfMs = 0;

  /** `share`: the part of the time that the work may take in the long run. */
  constructor(clock: Pick<Clock, 'now'>, share: number) {
    this.#clock = clock;
    this.#share = share;
  }

  /** `Clock.now` from which no more than `allowanceMs` is owed. */
  dueMs(allowanceMs: number): number {
    return this.#asOfMs + Math.max(0, this.#owedMs - allowanceMs) / this.#share;
  }

  /**
   * Work is over that began at `beganMs` of `Clock.now`. It makes no more than `mostMs` owed, or
   * what was owed before it.
   */
  spent(costMs: number, beganMs: number, mostMs = Number.POSITIVE_INFINITY): void {
    const now = this.#clock.now();
    const before = Math.max(0, this.#owedMs - this.#share * (beganMs - this.#asOfMs));
    const after = Math.max(0, before + costMs - this.#share * (now - beganMs));
    this.#owedMs = Math.min(after, Math.max(before, mostMs));
    this.#asOfMs = now;
  }
}
