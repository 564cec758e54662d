/** Refreshes Services in turns, so that those that take long do not hold up others. */
import type { Clock } from '../time/clock.ts';
import type { Pacer } from '../time/pacer.ts';
import { CostGroups, type Waiting } from './cost-groups.ts';

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
const stepsUntimed = 4;

/** A Service that is not known to take long has this part of a turn until it is known. */
const firstPart = 0.1;

/** Services that are remembered to take long. The first ones are forgotten. */
const longMax = 10_000;

/**
 * A Service that waits for its next turn. Steps are what it costs: on a busy machine, time depends
 * on other processes.
 */
interface Job extends Waiting {
  readonly name: string;
  readonly receivedMs: number;
  /** Undefined: it is not begun. */
  steps: Steps | undefined;
  /** The steps so far. */
  stepsTaken: number;
}

export class Refresher {
  readonly #options: RefresherOptions;
  readonly #jobs = new Map<string, Job>();
  readonly #groups = new CostGroups<Job>();
  /** Services that changed while they were refreshed. */
  readonly #changed = new Map<string, number>();
  /** The steps of Services that took more than one turn when they were last refreshed. */
  readonly #long = new Map<string, number>();

  constructor(options: RefresherOptions) {
    this.#options = options;
  }

  /** All that was added is refreshed. */
  get idle(): boolean {
    return this.#groups.size === 0;
  }

  add(name: string, receivedMs: number): void {
    const job = this.#jobs.get(name);
    if (job === undefined) {
      const cost = this.#long.get(name) ?? 0;
      const added = { name, receivedMs, steps: undefined, stepsTaken: 0, cost, group: undefined };
      this.#jobs.set(name, added);
      this.#groups.add(added);
    } else if (job.steps !== undefined && !this.#changed.has(name)) {
      this.#changed.set(name, receivedMs);
    }
  }

  /** Works until the pacer's slice is spent, or all is refreshed. */
  work(pacer: Pacer): void {
    while (!this.idle) {
      this.#turn(this.#groups.next()!);
      if (pacer.due) return;
    }
  }

  /** Gives the next Service its turn. */
  #turn(job: Job): void {
    const isFirst = job.steps === undefined;
    job.steps ??= this.#options.refresh(job.name, job.receivedMs);
    if (job.steps === undefined) this.#groups.take(1);
    const isOver = job.steps === undefined || this.#advance(job, job.steps, isFirst);
    if (!isOver) {
      job.cost = Math.max(job.cost, job.stepsTaken);
      this.#groups.add(job);
      return;
    }
    this.#remember(job, isFirst);
    this.#jobs.delete(job.name);
    const changedMs = this.#changed.get(job.name);
    this.#changed.delete(job.name);
    if (changedMs !== undefined) this.add(job.name, changedMs);
  }

  /** Takes steps for the time of a turn. Returns whether they were the last ones. */
  #advance(job: Job, steps: Steps, isFirst: boolean): boolean {
    const { clock, shareMs } = this.#options;
    const longestMs = job.cost === 0 ? firstPart * shareMs : shareMs;
    const untimed = isFirst ? stepsUntimed : 1;
    const startMs = clock.now();
    let [isOver, taken, tookMs] = [false, 0, 0];
    while (!isOver && tookMs < longestMs) {
      isOver = steps.next().done === true;
      taken += 1;
      if (taken >= untimed) tookMs = clock.now() - startMs;
    }
    job.stepsTaken += taken;
    this.#groups.take(taken);
    return isOver;
  }

  #remember({ name, stepsTaken }: Job, isShort: boolean): void {
    this.#long.delete(name);
    if (isShort) return;
    this.#long.set(name, stepsTaken);
    if (this.#long.size <= longMax) return;
    for (const first of this.#long.keys()) {
      this.#long.delete(first);
      return;
    }
  }
}
