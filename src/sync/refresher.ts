/** Refreshes Services in turns, so that one that takes long does not hold up others. */
import type { Clock } from '../time/clock.ts';
import type { Pacer } from '../time/pacer.ts';

/** Refreshes a Service in steps. */
type Steps = Generator<undefined, void>;

interface RefresherOptions {
  readonly clock: Clock;
  /** `receivedMs` is `Clock.now` of the change. Undefined: it is done. */
  readonly refresh: (name: string, receivedMs: number) => Steps | undefined;
  /** The longest time of one turn of a Service. */
  readonly shareMs: number;
}

/**
 * The clock is asked after this many steps, as that takes as long as a short step. Most Services
 * have fewer. Of one that has more, each may be as long as a turn.
 */
const stepsUntimed = 16;

interface Job {
  readonly name: string;
  readonly receivedMs: number;
  readonly steps: Steps;
  /** The clock is not asked before this step of a turn. */
  readonly stepsUntimed: number;
}

export class Refresher {
  readonly #options: RefresherOptions;
  /** Services that are not begun, in arrival order, with the time of their change. */
  readonly #waiting = new Map<string, number>();
  /** Services that are begun, in the order of their turns. */
  #long: Job[] = [];
  /** Services that changed while they were refreshed. */
  readonly #changed = new Map<string, number>();
  #wasLong = false;

  constructor(options: RefresherOptions) {
    this.#options = options;
  }

  /** All that was added is refreshed. */
  get idle(): boolean {
    return this.#waiting.size === 0 && this.#long.length === 0;
  }

  /** All that was added is refreshed, or begun. */
  get caughtUp(): boolean {
    return this.#waiting.size === 0;
  }

  add(name: string, receivedMs: number): void {
    const isBegun = this.#long.some((job) => job.name === name);
    const queue = isBegun ? this.#changed : this.#waiting;
    if (!queue.has(name)) queue.set(name, receivedMs);
  }

  /**
   * Works until the pacer's slice is spent, or all is refreshed or begun. It alternates between
   * Services that are begun and those that are not.
   */
  work(pacer: Pacer): void {
    do {
      this.#wasLong = this.#long.length > 0 && (!this.#wasLong || this.caughtUp);
      if (this.#wasLong) this.#advance(this.#long.shift()!);
      else if (!this.#begin()) return;
    } while (!pacer.due && !this.caughtUp);
  }

  /** Begins with the next Service. Returns whether there is one. */
  #begin(): boolean {
    for (const [name, receivedMs] of this.#waiting) {
      this.#waiting.delete(name);
      const steps = this.#options.refresh(name, receivedMs);
      if (steps !== undefined) this.#advance({ name, receivedMs, steps, stepsUntimed });
      return true;
    }
    return false;
  }

  #advance(job: Job): void {
    const { clock, shareMs } = this.#options;
    const untilMs = clock.now() + shareMs;
    for (let steps = 1; ; steps += 1) {
      const { done } = job.steps.next();
      if (done) {
        this.#over(job);
        return;
      }
      if (steps >= job.stepsUntimed && clock.now() >= untilMs) break;
    }
    this.#long.push({ ...job, stepsUntimed: 1 });
  }

  #over({ name }: Job): void {
    const changedMs = this.#changed.get(name);
    this.#changed.delete(name);
    if (changedMs !== undefined) this.add(name, changedMs);
  }
}
