/**
 * Opens the next watch while the current one still runs: at a busy API server a watch may take
 * minutes to begin, and changes would be missed in that time. If it fails, there is none: then the
 * next one is opened when the current one has ended.
 */
export class NextWatch<Watch> {
  readonly #timer: NodeJS.Timeout | undefined;
  #pending: Promise<Watch> | undefined;

  /** Calls `open` after `delayMs` (undefined = never), and `onReady` when it has succeeded. */
  constructor(delayMs: number | undefined, open: () => Promise<Watch>, onReady: () => void) {
    if (delayMs === undefined) return;
    this.#timer = setTimeout(() => {
      this.#pending = open();
      this.#pending.then(onReady, () => {
        this.#pending = undefined;
      });
    }, delayMs);
  }

  /** Takes the next watch, which may not have begun yet; undefined if there is none. */
  take(): Promise<Watch> | undefined {
    clearTimeout(this.#timer);
    return this.#pending;
  }
}
