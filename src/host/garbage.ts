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
 * A collection in one step holds up the event loop for about a millisecond for each megabyte, and
 * for seconds where processors are busy. A larger heap is collected by other threads while this one
 * continues. V8 itself gives back what that leaves in partly filled pages, two minutes later.
 */
const oneStepMax = 32 * 1024 * 1024;
/** Such a collection is over by then. */
const collectedMs = 5000;
/** The least time between two collections: they must stay a small part of our work. */
const restMs = 600_000;

interface Heap {
  usedBytes(): number;
  /** Also lets go of compiled code. */
  collect(): void;
  /** Undefined: the heap is always collected in one step, since it stays small. */
  readonly startCollection?: () => void;
  /** Is called after each collection. */
  readonly collected?: () => void;
}

export class QuietCollector {
  readonly #heap: Heap;
  /** What was used after the last collection. */
  #usedBytes = 0;
  #notBeforeMs = 0;
  #workedAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #collecting: NodeJS.Timeout | undefined;

  constructor(heap: Heap = ownHeap) {
    this.#heap = heap;
  }

  /** Must be called when something was done. */
  worked(): void {
    this.#workedAtMs = performance.now();
    if (this.#timer === undefined) this.#wait();
  }

  #wait(): void {
    const dueMs = Math.max(this.#workedAtMs + quietMs, this.#notBeforeMs);
    this.#timer = setTimeout(() => this.#quiet(), Math.ceil(dueMs - performance.now())).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#collecting);
  }

  #quiet(): void {
    this.#timer = undefined;
    if (performance.now() < this.#workedAtMs + quietMs) {
      this.#wait();
      return;
    }
    const usedBytes = this.#heap.usedBytes();
    const enough = Math.max(growthMin, growthShareMin * usedBytes);
    if (usedBytes - this.#usedBytes < enough) return;
    this.#notBeforeMs = performance.now() + restMs;
    const { startCollection } = this.#heap;
    if (usedBytes > oneStepMax && startCollection !== undefined) {
      startCollection();
      this.#collecting = setTimeout(() => this.#collected(), collectedMs).unref();
    } else {
      this.#heap.collect();
      this.#collected();
    }
  }

  #collected(): void {
    this.#usedBytes = this.#heap.usedBytes();
    this.#heap.collected?.();
  }
}

/** The heap of this thread. It needs no addon, which the thread that answers HTTP does not load. */
export const ownHeap: Heap = {
  usedBytes: () => process.memoryUsage().heapUsed,
  collect: () => {
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      const gc = exposedCollector();
      if (gc === undefined) continue;
      gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
      return;
    }
  },
};

/** Another thread may take the flag away as often; then the next quiet time collects. */
const attemptsMax = 10;

/**
 * The collector of this thread. Undefined: another thread, which was here at the same time, has
 * taken the flag away, because flags belong to the process.
 */
function exposedCollector(): NodeJS.GCFunction | undefined {
  // Node offers it to contexts that are made while the flag is set. No other flag may be set here:
  // V8 ended the process when flags of flushing code changed while a collection was under way.
  const { setFlagsFromString } = process.getBuiltinModule('node:v8');
  setFlagsFromString('--expose-gc');
  const gc = process.getBuiltinModule('node:vm').runInNewContext('globalThis.gc');
  setFlagsFromString('--no-expose-gc');
  return gc as NodeJS.GCFunction | undefined;
}
