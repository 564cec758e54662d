/**
 * Is preloaded into the product (`node --import`) when its memory is measured. At the end of the
 * process it writes all collections of the heap to the file that the environment names.
 */
import { writeFileSync } from 'node:fs';
import { type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';

/** The event loop stood still. */
export interface Stop {
  /** Milliseconds since the start of the process. */
  readonly atMs: number;
  readonly durationMs: number;
}

/** The variable of the environment with the file's name. */
export const fileVariable = 'FAIRLEAD_BENCH_COLLECTIONS';

const stops: Stop[] = [];
const file = process.env[fileVariable] ?? '';
if (file !== '') {
  const observer = new PerformanceObserver((list) => take(list.getEntries()));
  observer.observe({ entryTypes: ['gc'] });
  process.on('exit', () => {
    take(observer.takeRecords());
    writeFileSync(file, JSON.stringify(stops));
  });
}

function take(entries: readonly PerformanceEntry[]): void {
  for (const { startTime, duration } of entries) {
    stops.push({ atMs: startTime, durationMs: duration });
  }
}
