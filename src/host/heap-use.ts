/** What V8's heap of this thread may hold, and what it holds. */
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';

export interface HeapUse {
  /** The size at which V8 ends the process. */
  readonly bytesMax: number;
  /**
   * Calls with the bytes in use after each collection of the whole heap: at other times they
   * include garbage. The result ends that.
   */
  follow(live: (bytes: number) => void): () => void;
}

export const ownHeapUse: HeapUse = {
  bytesMax: getHeapStatistics().heap_size_limit,
  follow: (live) => {
    const observer = new PerformanceObserver((list) => {
      if (list.getEntries().some(isOfWholeHeap)) live(getHeapStatistics().used_heap_size);
    });
    observer.observe({ entryTypes: ['gc'] });
    return () => observer.disconnect();
  },
};

function isOfWholeHeap(entry: object): boolean {
  const { detail } = entry as { readonly detail?: { readonly kind?: number } };
  return detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR;
}
