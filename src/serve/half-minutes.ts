/** What was counted in each half minute of the last ten minutes. */
import type { Clock } from '../time/clock.ts';

const halfMinuteMs = 30_000;
const kept = 20;

export class HalfMinutes {
  readonly #clock: Pick<Clock, 'now'>;
  /** A ring: each half minute has its place. */
  readonly #counts = Array.from({ length: kept }, () => 0);
  /** The half minute of the last count, since the clock's start. */
  #last: number;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
    this.#last = this.#halfMinute();
  }

  add(count: number): void {
    this.#advance();
    this.#counts[this.#last % kept]! += count;
  }

  /** The oldest first; the last one is not over yet. */
  read(): readonly number[] {
    this.#advance();
    const next = (this.#last + 1) % kept;
    return [...this.#counts.slice(next), ...this.#counts.slice(0, next)];
  }

  #advance(): void {
    const now = this.#halfMinute();
    for (let one = Math.max(this.#last, now - kept) + 1; one <= now; one += 1) {
      this.#counts[one % kept] = 0;
    }
    this.#last = now;
  }

  #halfMinute(): number {
    return Math.floor(this.#clock.now() / halfMinuteMs);
  }
}
