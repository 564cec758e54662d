import type { Committer } from '../kernel/kernel.ts';
import type { Clock } from '../time/clock.ts';
import { Debt } from '../time/debt.ts';

/**
 * What others are known to have changed of ours is repaired immediately. A program that changes it
 * again and again makes us work for this time in advance, and then for this part of the time.
 */
const repairAllowanceMs = 120_000;
const repairShare = 0.2;

/** What other programs have changed of ours, as far as it is known and not repaired. */
export class Damage {
  readonly #clock: Clock;
  readonly #repairs: Debt;
  #isSuspected = false;
  /** `Clock.now` since when it is known. */
  #sinceMs: number | undefined;
  #by: Committer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#repairs = new Debt(clock, repairShare);
  }

  /** The kernel has reported that a program may have changed a table of ours. */
  suspect(by: Committer | undefined): void {
    this.#isSuspected = true;
    this.#by = by;
  }

  /** Whether there was a suspicion since the last call. */
  takeSuspicion(): boolean {
    const isSuspected = this.#isSuspected;
    this.#isSuspected = false;
    return isSuspected;
  }

  /** A program has changed something at `sinceMs` of `Clock.now`, or before. */
  confirm(sinceMs: number): void {
    this.#sinceMs ??= sinceMs;
  }

  get isKnown(): boolean {
    return this.#sinceMs !== undefined;
  }

  /** How long it has waited for its repair; 0 = there is none. */
  get ageMs(): number {
    return this.#sinceMs === undefined ? 0 : this.#clock.now() - this.#sinceMs;
  }

  /** `Clock.now` from which a repair is due. */
  get repairAtMs(): number {
    return this.#repairs.dueMs(repairAllowanceMs);
  }

  /** A repair is over, or was given up, that began at `beganMs` of `Clock.now`. */
  spent(beganMs: number): void {
    this.#repairs.spent(this.#clock.now() - beganMs, beganMs);
  }

  repaired(): void {
    this.#sinceMs = undefined;
  }

  /** Who has changed our tables since the last call, as far as the kernel said. */
  takeCommitter(): Committer | undefined {
    const by = this.#by;
    this.#by = undefined;
    return by;
  }

  /** The comparison that had taken this committer was given up. */
  giveBack(by: Committer | undefined): void {
    this.#by ??= by;
  }
}
