/** When V8 puts memory before speed. */
import { setFlagsFromString } from 'node:v8';

/** A first load grows, and is not to be slowed down. */
const startMs = 15_000;
const sampleMs = 1000;
/** What has not gone within this time is in use. */
const patienceMs = 30_000;
const spareBytes = 8 * 1024 * 1024;

/** Follows how much of the process is resident. */
export class MemoryWatch {
  readonly #startedMs: number;
  /** The least that was seen, or what turned out to be in use. */
  #leastBytes = Number.POSITIVE_INFINITY;
  #savingSinceMs: number | undefined;

  constructor(startedMs: number) {
    this.#startedMs = startedMs;
  }

  /** Whether memory is to be saved from now on: it has grown by a fifth, and nobody knows why. */
  sample(nowMs: number, residentBytes: number): boolean {
    if (nowMs - this.#startedMs < startMs) return false;
    this.#leastBytes = Math.min(this.#leastBytes, residentBytes);
    if (this.#savingSinceMs === undefined) {
      const hasGrown = residentBytes > 1.2 * this.#leastBytes + spareBytes;
      if (hasGrown) this.#savingSinceMs = nowMs;
      return hasGrown;
    }
    const isInUse = nowMs - this.#savingSinceMs >= patienceMs;
    if (isInUse) this.#leastBytes = residentBytes;
    if (residentBytes <= 1.1 * this.#leastBytes) this.#savingSinceMs = undefined;
    return this.#savingSinceMs !== undefined;
  }
}

/**
 * V8 keeps the pages that a full collection has freed, as many as ever were in use, until a
 * collection is meant to reduce memory, and that comes only where little is allocated: under
 * constant change never. So one large Service that changes for a while would double what the
 * process holds, for good. While memory has grown, each full collection gives pages back, and comes
 * when the heap has grown by a third; that costs half as much time again under thousands of changes
 * a second, so it ends when memory is back, or is in use.
 */
export function keepHeapSmall(): void {
  const watch = new MemoryWatch(performance.now());
  let isSaving = false;
  const timer = setInterval(() => {
    const next = watch.sample(performance.now(), process.memoryUsage.rss());
    if (next !== isSaving)
      setFlagsFromString(next ? '--optimize-for-size' : '--no-optimize-for-size');
    isSaving = next;
  }, sampleMs);
  timer.unref();
}
