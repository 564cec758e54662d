import { type Clock, systemClock } from './clock.ts';

/**
 * Lets the event loop serve others once a slice of work is done. Call it every few microseconds,
 * and await what it returns, if it returns a promise.
 */
export type Pause = () => Promise<void> | undefined;

const itemsPerPause = 8;

/** Calls `work` for each item, and lets the event loop serve others in between. */
export async function inTurns<T>(
  items: Iterable<T>,
  pause: Pause,
  work: (item: T) => void,
): Promise<void> {
  let done = 0;
  for (const item of items) {
    work(item);
    done += 1;
    // To ask whether to rest takes longer than most work does.
    if (done % itemsPerPause !== 0) continue;
    const rest = pause();
    if (rest !== undefined) await rest;
  }
}

/**
 * Resolving and two families may each use a slice of one turn of the event loop, and reading its
 * own: together with a pause of the garbage collector, that stays below 20 ms.
 */
export const standardSliceMs = 2;

/**
 * What is read in one turn becomes one batch. With 3 ms instead of 5, more and smaller batches take
 * a tenth more processor time under churn, and changes wait four times as long.
 */
export const readingSliceMs = 5;

/** For callers that need not share the event loop. */
export const noPause: Pause = () => undefined;

/**
 * Divides long work into slices, so that it never holds the event loop for longer than `sliceMs`.
 * Ask `due` between two objects; when it is true, await `rest`. Tasks that work at the same time
 * can share one Pacer: then one of those that rest continues in each turn of the loop, so that four
 * tasks do not use four slices in one turn.
 */
export class Pacer {
  readonly #clock: Pick<Clock, 'now' | 'turn'>;
  readonly #sliceMs: number;
  #turn: Promise<void> = Promise.resolve();
  #sinceMs: number;
  #askedMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'now' | 'turn'> = systemClock, sliceMs = standardSliceMs) {
    this.#clock = clock;
    this.#sliceMs = sliceMs;
    this.#sinceMs = clock.now();
  }

  /** Work begins that waited for events: with a new slice, unless another task is at work. */
  begin(): void {
    const now = this.#clock.now();
    if (now - this.#askedMs >= this.#sliceMs) this.#sinceMs = now;
  }

  get due(): boolean {
    this.#askedMs = this.#clock.now();
    return this.#askedMs - this.#sinceMs >= this.#sliceMs;
  }

  rest(): Promise<void> {
    this.#turn = this.#turn
      .then(() => this.#clock.turn())
      .then(() => {
        this.#sinceMs = this.#clock.now();
      });
    return this.#turn;
  }

  /** When the slice is used up, returns a rest to await. */
  readonly pause: Pause = () => (this.due ? this.rest() : undefined);
}
