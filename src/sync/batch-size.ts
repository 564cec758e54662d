/**
 * A batch that took the kernel longer than this makes the next ones smaller: others can't commit
 * during that time, and our own next change waits too, for one batch of each family. It is far
 * below 250 ms, the longest that any program should wait, because the next batch of the same size
 * may be more work.
 */
const hookedCommitMs = 25;

/** While packets meet nothing of ours, no change waits, and few large batches cost least. */
const unhookedCommitMs = 80;

/**
 * The time that batches take makes them no smaller than this. What one of this size takes beyond
 * `hookedCommitMs` any commit takes, whatever it holds: for each new `goto` of a verdict map, the kernel
 * visits all verdicts of the table (`nft_table_validate`).
 */
const pacedBytesMin = 32 * 1024;

/** Batches grow by this factor: a chain takes the kernel thirty times as long as a verdict. */
const growthFactor = 1.25;

/** What is kept with each batch of what any takes: a table becomes small, or deletes elements. */
const kept = 0.98;

/** What any takes grows by this factor, and this time: one may have waited for another program. */
const leastFactor = 2;

/** How large batches are, by the time that those before them took. */
export class BatchSize {
  readonly #largestBytes: number;
  #bytesMax: number;
  #commitMs = unhookedCommitMs;
  /** What a commit takes, whatever it holds. */
  #leastMs = 0;

  constructor(largestBytes: number) {
    this.#largestBytes = largestBytes;
    this.#bytesMax = largestBytes;
  }

  get bytesMax(): number {
    return this.#bytesMax;
  }

  /** Packets meet what is written from now on. */
  hooked(): void {
    this.#commitMs = hookedCommitMs;
    const fitting = (this.#bytesMax * hookedCommitMs) / unhookedCommitMs;
    if (this.#bytesMax < this.#largestBytes) this.#bytesMax = Math.max(pacedBytesMin, fitting);
  }

  /**
   * A batch of `bytes` took the kernel this time. The next ones take it `#commitMs`, or twice as long
   * as any does: smaller ones would take more time together.
   */
  committed(bytes: number, tookMs: number): void {
    const isQuick = tookMs <= this.#commitMs && 2 * bytes < this.#bytesMax;
    const isLeast = bytes <= growthFactor * pacedBytesMin || tookMs < this.#leastMs;
    const longest = leastFactor * this.#leastMs + this.#commitMs;
    const least = Math.min(longest, Math.max(0, tookMs - this.#commitMs));
    this.#leastMs = isLeast && !isQuick ? least : kept * this.#leastMs;
    // That a small one was quick says nothing about large ones.
    if (isQuick) return;
    const grown = growthFactor * this.#bytesMax;
    const perMs = Math.max(bytes, pacedBytesMin) / (tookMs - this.#leastMs);
    const fitting = perMs * Math.max(this.#commitMs, this.#leastMs);
    const next = Math.max(
      pacedBytesMin,
      tookMs > this.#commitMs ? Math.min(grown, fitting) : grown,
    );
    this.#bytesMax = Math.min(this.#largestBytes, next);
  }
}
