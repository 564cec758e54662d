import { type Clock, Wakeup } from '../time/clock.ts';

/** Requests for a sync, and the family's wait for them. */
export class Requests {
  readonly #clock: Clock;
  readonly #wakeup: Wakeup;
  readonly #requested: () => void;
  #isReported = false;
  #isWaiting = false;
  /** `Clock.now` of the timer that is set, and its end, after which no wait may follow. */
  #wakesAtMs = Number.POSITIVE_INFINITY;
  stop = (): void => {};

  /** `requested` is called once for all requests that the next sync answers. */
  constructor(clock: Clock, requested: () => void) {
    this.#clock = clock;
    this.#wakeup = new Wakeup(clock);
    this.#requested = requested;
  }

  /** The family waits. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Ends a wait. */
  readonly wake = (): void => this.#wakeup.wake();

  /** Asks for a sync. */
  request(): void {
    if (!this.#isReported) this.report();
    this.wake();
  }

  /** Reports that a sync is due, which `request` does not do again before that sync. */
  report(): void {
    this.#isReported = true;
    this.#requested();
  }

  /** A sync begins: it answers all that was asked for. */
  begin(): void {
    this.#isReported = false;
  }

  /**
   * A sync is over. Calls `requested` again after requests during the sync, unless nothing is left to
   * do: what came while the sync was planned may have been done by it.
   */
  end(isMoreToDo: boolean): void {
    if (this.#isReported && isMoreToDo) this.#requested();
    this.#isReported &&= isMoreToDo;
  }

  /** Waits for `wake`, or until `atMs` of `Clock.now` at most. */
  async wait(atMs = Number.POSITIVE_INFINITY): Promise<void> {
    this.#isWaiting = true;
    // A timer of an earlier wait ends this one too soon, which costs less than another timer.
    if (atMs < this.#wakesAtMs) {
      this.stop();
      this.#wakesAtMs = atMs;
      this.stop = this.#clock.after(Math.ceil(atMs - this.#clock.now()), () => {
        this.#wakesAtMs = Number.POSITIVE_INFINITY;
        this.wake();
      });
    }
    await this.#wakeup.wait();
    this.#isWaiting = false;
  }
}
