import { type Clock, Wakeup } from '../time/clock.ts';

/** Requests for a sync, and the family's wait for them. */
export class Requests {
  readonly #wakeup: Wakeup;
  readonly #tell: () => void;
  #isTold = false;
  #isWaiting = false;

  /** `tell` is called once for all requests that the next sync answers. */
  constructor(clock: Clock, tell: () => void) {
    this.#wakeup = new Wakeup(clock);
    this.#tell = tell;
  }

  /** The family waits. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Ends a wait. */
  readonly wake = (): void => this.#wakeup.wake();

  /** Asks for a sync. */
  request(): void {
    if (!this.#isTold) {
      this.#isTold = true;
      this.#tell();
    }
    this.wake();
  }

  /** A sync begins: it answers all that was asked for. */
  begin(): void {
    this.#isTold = false;
  }

  /**
   * A sync is over. Calls `tell` again when there were requests meanwhile, unless nothing is left to
   * do: what came while the sync was planned may have been done by it.
   */
  end(isMoreToDo: boolean): void {
    if (this.#isTold && isMoreToDo) this.#tell();
    this.#isTold &&= isMoreToDo;
  }

  /** Waits for `wake`, or for `timeoutMs`; undefined = without limit. */
  async wait(timeoutMs: number | undefined): Promise<void> {
    this.#isWaiting = true;
    await this.#wakeup.wait(timeoutMs);
    this.#isWaiting = false;
  }
}
