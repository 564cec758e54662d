/** Resolves Services that changed in turns, so that those that take long do not hold up others. */
import type { ChangedService, ClusterState } from '../state/store.ts';
import type { Clock } from '../time/clock.ts';
import { Debt } from '../time/debt.ts';
import type { Pacer } from '../time/pacer.ts';

interface RefresherOptions {
  readonly clock: Clock;
  readonly state: Pick<ClusterState, 'changed' | 'resolved'>;
  /** Refreshes a Service in steps. `receivedMs` is `Clock.now` of the change. */
  readonly refresh: (name: string, receivedMs: number) => Generator<undefined, void>;
  /** A turn of a Service takes half of this at most. */
  readonly sliceMs: number;
}

/**
 * The clock is asked after this many steps, as that takes as long as a short step. Most Services
 * have fewer. Of one that has more, each may be as long as a turn.
 */
const stepsUntimed = 4;

/** A Service that is not known to take long has this part of a turn until it is known. */
const firstPart = 0.1;

/** The groups of `CostGroups` whose Services are short. */
const shortGroups = 3;

/** A Service of this many steps is long: it takes milliseconds. */
const longMin = 4 ** shortGroups;

/**
 * The part of the time that long Services may take in the long run: with all of it, the collections
 * of their garbage would delay changes of all others.
 */
const longShare = 0.25;

/** What long Services may owe, in milliseconds of work: a few that change rarely do not rest. */
const longAllowanceMs = 500;

export class Refresher {
  readonly #options: RefresherOptions;
  /** What long Services owe; undefined: all is not listed yet, and they need not rest. */
  #owed: Debt | undefined;

  constructor(options: RefresherOptions) {
    this.#options = options;
  }

  /** From now on long Services rest. */
  listed(): void {
    this.#owed = new Debt(this.#options.clock, longShare);
  }

  /** No Service is next. */
  get idle(): boolean {
    return this.#options.state.changed.next(this.#groupsNow) === undefined;
  }

  /** How long long Services still rest. */
  get restMs(): number {
    if (this.#owed === undefined) return 0;
    return Math.max(0, this.#owed.dueMs(longAllowanceMs) - this.#options.clock.now());
  }

  /** Undefined: all. */
  get #groupsNow(): number | undefined {
    return this.restMs > 0 ? shortGroups : undefined;
  }

  /** Works until the pacer's slice is spent, or no Service is next. */
  work(pacer: Pacer): void {
    const { changed } = this.#options.state;
    for (;;) {
      const groups = this.#groupsNow;
      const one = changed.next(groups);
      if (one === undefined) return;
      this.#turn(one, groups);
      if (pacer.due) return;
    }
  }

  /**
   * Gives the next Service its turn. Steps are what it costs: on a busy machine, time depends on
   * other processes.
   */
  #turn(one: ChangedService, groups: number | undefined): void {
    const { clock, refresh, sliceMs, state } = this.#options;
    const longestMs = (sliceMs / 2) * (one.cost === 0 ? firstPart : 1);
    const isFirst = one.steps === undefined;
    one.steps ??= refresh(one.key, one.sinceMs);
    const untimed = isFirst ? stepsUntimed : 1;
    const spent = state.changed.take(groups);
    const startMs = clock.now();
    let [isOver, taken, tookMs] = [false, 0, 0];
    do {
      isOver = one.steps.next().done === true;
      taken += 1;
      if (taken >= untimed) tookMs = clock.now() - startMs;
    } while (!isOver && tookMs < longestMs);
    one.stepsTaken += taken;
    spent(taken);
    if (one.cost >= longMin) this.#owed?.spent(tookMs, startMs);
    if (isOver) {
      // One that took a single turn is short.
      state.resolved(one, isFirst ? 0 : one.stepsTaken);
      return;
    }
    one.cost = Math.max(one.cost, one.stepsTaken);
    state.changed.continueLater(one);
  }
}
