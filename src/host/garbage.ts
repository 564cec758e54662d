/**
 * Gives memory back when work is over. V8 collects garbage by how much is allocated: what a start
 * or a burst of changes leaves would stay for as long as nothing happens.
 */

/** The time after the last work. */
const quietMs = 10_000;
/** Less growth than this, or than this part of the heap, is not worth a collection. */
const growthMin = 3 * 1024 * 1024;
const growthShareMin = 1 / 8;
/**
 * A collection of a larger heap would hold up the event loop for too long. With 112 MB (44,000
 * Services) it takes 135 ms of the main thread, 0.65 s of all threads, and gives 40 MB back.
 */
const heapMax = 128 * 1024 * 1024;
/** The least time between two collections: they must stay a small part of our work. */
const restMs = 600_000;

interface Heap {
  usedBytes(): number;
  collect(): void;
}

export class QuietCollector {
  readonly #heap: Heap;
  /** What was used after the last collection. */
  #usedBytes = 0;
  #notBeforeMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(heap: Heap = ownHeap) {
    this.#heap = heap;
  }

  /** Must be called when something was done. */
  worked(): void {
    const untilMs = this.#notBeforeMs - performance.now();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#quiet(), Math.max(quietMs, untilMs)).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #quiet(): void {
    const usedBytes = this.#heap.usedBytes();
    const enough = Math.max(growthMin, growthShareMin * usedBytes);
    if (usedBytes > heapMax || usedBytes - this.#usedBytes < enough) return;
    this.#heap.collect();
    this.#usedBytes = this.#heap.usedBytes();
    this.#notBeforeMs = performance.now() + restMs;
  }
}

/** The heap of this thread. */
export const ownHeap: Heap = {
  usedBytes: () => process.memoryUsage().heapUsed,
  collect: () => {
    // Node offers it to contexts that are made while the flag is set.
    const { setFlagsFromString } = process.getBuiltinModule('node:v8');
    setFlagsFromString('--expose-gc');
    const gc = process.getBuiltinModule('node:vm').runInNewContext('gc') as NodeJS.GCFunction;
    setFlagsFromString('--no-expose-gc');
    // No other flag may be set here: V8 ended the process when flags of flushing code changed while
    // a collection was under way.
    gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  },
};
