import { type Clock, Wakeup } from '../time/clock.ts';

/** Requests for a sync, and the family's wait for them. */
export class Requests {
  readonly #wakeup: Wakeup;
  readonly #requested: () => void;
  #isReported = false;
  #isWaiting = false;

  /** `requested` is called once for all requests that the next sync answers. */
  constructor(clock: Clock, requested: () => void) {
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

  /** Waits for `wake`, or for `timeoutMs`; undefined = without limit. */
  async wait(timeoutMs: number | undefined): Promise<void> {
    this.#isWaiting = true;
    await this.#wakeup.wait(timeoutMs);
    this.#isWaiting = false;
  }
}
