/**
 * A batch that took the kernel longer than this makes the next ones smaller: others can't commit
 * during that time, and our own next change waits too, for one batch of each family. It is far
 * below 250 ms, the longest that any program should wait, because the next batch of the same size
 * may be more work.
 */
const commitMs = 25;

/**
 * The time that batches take makes them no smaller than this. What one of this size takes beyond
 * `commitMs` any commit takes, whatever it holds: for each new `goto` of a verdict map, the kernel
 * visits all verdicts of the table (`nft_table_validate`).
 */
const pacedBytesMin = 32 * 1024;

/** Batches grow by this factor: a chain takes the kernel thirty times as long as a verdict. */
const growthFactor = 1.25;

/** What is kept with each batch of what any takes: a table becomes small, or deletes elements. */
const kept = 0.98;

/** What any takes grows by this factor, and `commitMs`: one may have waited for another program. */
const leastFactor = 2;

/** How large batches are, by the time that those before them took. */
export class BatchSize {
  readonly #largestBytes: number;
  #bytesMax: number;
  /** What a commit takes, whatever it holds. */
  #leastMs = 0;

  constructor(largestBytes: number) {
    this.#largestBytes = largestBytes;
    this.#bytesMax = largestBytes;
  }

  get bytesMax(): number {
    return this.#bytesMax;
  }

  /**
   * A batch of `bytes` took the kernel this time. The next ones take it `commitMs`, or twice as long
   * as any does: smaller ones would take more time together.
   */
  committed(bytes: number, tookMs: number): void {
    const isQuick = tookMs <= commitMs && 2 * bytes < this.#bytesMax;
    const isLeast = bytes <= growthFactor * pacedBytesMin || tookMs < this.#leastMs;
    const longest = leastFactor * this.#leastMs + commitMs;
    const least = Math.min(longest, Math.max(0, tookMs - commitMs));
    this.#leastMs = isLeast && !isQuick ? least : kept * this.#leastMs;
    // That a small one was quick says nothing about large ones.
    if (isQuick) return;
    const grown = growthFactor * this.#bytesMax;
    const perMs = Math.max(bytes, pacedBytesMin) / (tookMs - this.#leastMs);
    const fitting = perMs * Math.max(commitMs, this.#leastMs);
    const next = Math.max(pacedBytesMin, tookMs > commitMs ? Math.min(grown, fitting) : grown);
    this.#bytesMax = Math.min(this.#largestBytes, next);
  }
}
