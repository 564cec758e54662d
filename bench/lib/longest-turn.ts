/**
 * How long the main thread works without a turn of the event loop, in milliseconds of its own CPU
 * time: what other processes of a busy machine take from it does not count.
 */
export class LongestTurn {
  #lastMs = threadCpuMs();
  #longestMs = 0;
  readonly #timer = setInterval(() => this.#turn(), 1).unref();

  /** The longest since the last call; ends nothing. */
  take(): number {
    this.#turn();
    const longestMs = this.#longestMs;
    this.#longestMs = 0;
    return longestMs;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #turn(): void {
    const nowMs = threadCpuMs();
    this.#longestMs = Math.max(this.#longestMs, nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
