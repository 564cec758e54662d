/** When the next sync may begin, by what those before it have cost. */
import type { Clock } from '../time/clock.ts';
import { Debt } from '../time/debt.ts';

/** The part of the time that syncs may take in the long run: a fifth of a core. */
const share = 0.2;

/**
 * How much may be owed when a sync begins: of all that waits, of small changes, or of changes that
 * go first, in milliseconds of work. So the more urgent ones may take some commits of large tables,
 * or hundreds of small ones, in advance.
 */
const allowanceMs = { all: 0, small: 500, first: 1000 } as const;

/**
 * What syncs with such changes make owed at most, so that more urgent ones need not wait after
 * them, and none for long once the rush is over.
 */
const owedMaxMs = { all: 250, small: 750, first: 1250 } as const;

/** What a sync is for. */
export type Urgency = keyof typeof allowanceMs;

/** A sync that is over. */
interface Spent {
  readonly beganMs: number;
  readonly costMs: number;
  /** Of the least urgent change that it had. */
  readonly urgency: Urgency;
  /** Nothing was left to do. */
  readonly isAll: boolean;
}

interface PaceOptions {
  readonly clock: Pick<Clock, 'now'>;
  /** No rest is longer, whatever syncs cost. */
  readonly longestRestMs: number;
}

export class Pace {
  readonly #options: PaceOptions;
  readonly #debt: Debt;
  /** `Clock.now` when the last sync was over that left nothing to do. */
  #endedMs = Number.NEGATIVE_INFINITY;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#debt = new Debt(options.clock, share);
  }

  /** `Clock.now` from which such a sync is due. */
  dueMs(urgency: Urgency): number {
    const owedUntilMs = this.#debt.dueMs(allowanceMs[urgency]);
    return Math.min(owedUntilMs, this.#endedMs + this.#options.longestRestMs);
  }

  /** A sync is over. */
  spent({ beganMs, costMs, urgency, isAll }: Spent): void {
    this.#debt.spent(costMs, beganMs, owedMaxMs[urgency]);
    if (isAll) this.#endedMs = this.#options.clock.now();
  }
}
