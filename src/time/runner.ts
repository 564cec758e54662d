import type { Clock } from './clock.ts';

interface RunnerOptions {
  readonly clock: Pick<Clock, 'now' | 'after'>;
  /** Never rejects. */
  readonly work: () => Promise<void>;
  /** How long the rest is after a run that took `tookMs`. It is asked whenever a run is planned. */
  readonly restMs: (tookMs: number) => number;
}

/**
 * Runs work when it is asked for: one run at a time, a rest after each, and again when it was asked
 * for in the meantime.
 */
export class Runner {
  readonly #options: RunnerOptions;
  /** `Clock.now` from which the next run is due; `POSITIVE_INFINITY`: it was not asked for. */
  #dueMs = Number.POSITIVE_INFINITY;
  #cancel = (): void => {};
  #running: Promise<void> | undefined;
  #endedMs = Number.NEGATIVE_INFINITY;
  #tookMs = 0;
  #isStopped = false;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Begins a run before it returns, or when the current run and the rest are over. */
  now(): void {
    this.#plan(Number.NEGATIVE_INFINITY);
  }

  /**
   * Begins a run in `delayMs`, in a later turn of the event loop, or when the current run and the
   * rest are over. A run that is due earlier is not put off.
   */
  soon(delayMs = 0): void {
    this.#plan(this.#options.clock.now() + delayMs);
  }

  /** Resolves when the current run is over. None follows. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    await this.#running;
  }

  #plan(dueMs: number): void {
    this.#dueMs = Math.min(this.#dueMs, dueMs);
    if (this.isRunning || this.#isStopped || this.#dueMs === Number.POSITIVE_INFINITY) return;
    this.#cancel();
    const { clock, restMs } = this.#options;
    const beginMs = Math.max(this.#dueMs, this.#endedMs + restMs(this.#tookMs));
    const waitMs = Math.max(0, beginMs - clock.now());
    if (waitMs === 0 && this.#dueMs === Number.NEGATIVE_INFINITY) this.#begin();
    else this.#cancel = clock.after(waitMs, () => this.#begin());
  }

  #begin(): void {
    this.#dueMs = Number.POSITIVE_INFINITY;
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    const { clock, work } = this.#options;
    const beganMs = clock.now();
    await work();
    this.#endedMs = clock.now();
    this.#tookMs = this.#endedMs - beganMs;
    this.#running = undefined;
    this.#plan(Number.POSITIVE_INFINITY);
  }
}
