/**
 * Opens the next watch while the current one still runs: at a busy API server a watch may take
 * minutes to begin, and changes would be missed in that time.
 */
export class NextWatch<Watch> {
  readonly #delayMs: number | undefined;
  readonly #open: () => Promise<Watch>;
  readonly #onReady: () => void;
  #timer: NodeJS.Timeout | undefined;
  #pending: Promise<Watch> | undefined;
  #taken = false;

  /** Calls `open` after `delayMs` (undefined = never), and `onReady` when it has succeeded. */
  constructor(delayMs: number | undefined, open: () => Promise<Watch>, onReady: () => void) {
    this.#delayMs = delayMs;
    this.#open = open;
    this.#onReady = onReady;
    this.#schedule();
  }

  /** Takes the next watch, which may not have begun yet; undefined if none was opened. */
  take(): Promise<Watch> | undefined {
    this.#taken = true;
    clearTimeout(this.#timer);
    return this.#pending;
  }

  #schedule(): void {
    this.#pending = undefined;
    // While the current watch runs, it may be tried again.
    if (this.#taken || this.#delayMs === undefined) return;
    this.#timer = setTimeout(() => this.#begin(), this.#delayMs);
  }

  #begin(): void {
    this.#pending = this.#open();
    this.#pending.then(this.#onReady, () => this.#schedule());
  }
}
