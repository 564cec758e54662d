/**
 * The longest turn of the event loop, in milliseconds of the main thread's CPU time. Time that
 * other processes of a busy machine take does not count.
 */
export class LongestTurn {
  #lastMs = threadCpuMs();
  #longestMs = 0;
  readonly #timer = setInterval(() => this.#turn(), 1).unref();

  /** The longest turn since the last call. The measurement continues. */
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
