import { type Clock, Wakeup } from './clock.ts';

/** What a family is asked for while it waits, and whether that was told. */
export class Requests {
  readonly #wakeup: Wakeup;
  readonly #tell: () => void;
  #isTold = false;
  #isWaiting = false;

  /** `tell`: is called when a sync is asked for of which nobody was told. */
  constructor(clock: Clock, tell: () => void) {
    this.#wakeup = new Wakeup(clock);
    this.#tell = tell;
  }

  /** Nothing is under way. */
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

  /** A sync is over. What was asked for meanwhile is told again. */
  end(): void {
    if (this.#isTold) this.#tell();
  }

  /** Until somebody wakes, or `timeoutMs` have passed; undefined = never. */
  async wait(timeoutMs: number | undefined): Promise<void> {
    this.#isWaiting = true;
    await this.#wakeup.wait(timeoutMs);
    this.#isWaiting = false;
  }
}
