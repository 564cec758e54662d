/**
 * Work in steps instead of milliseconds: how often any block of `src` is entered. V8 counts that
 * (precise coverage), the same on every machine, however busy. What its built-in functions do is
 * one step.
 */
import { type Profiler, Session } from 'node:inspector';

const session = new Session();
session.connect();
session.post('Profiler.enable');
// Before anything is called: only code that is compiled from now on counts its blocks.
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });

export function stepsTaken(work: () => unknown): number {
  entries();
  work();
  return entries();
}

/** How much more work four times the size is: about 4, or 16 when it grows with the square. */
export function growth(work: (size: number) => () => unknown, size: number): number {
  const [small, large] = [work(size), work(4 * size)];
  // What is done but once, such as the making of what is kept, is not what grows.
  small();
  return stepsTaken(large) / stepsTaken(small);
}

/** Since the last call. */
function entries(): number {
  let sum = 0;
  const add = (_: Error | null, found: Profiler.TakePreciseCoverageReturnType): void => {
    for (const { url, functions } of found.result) {
      if (!url.includes('/src/')) continue;
      for (const { ranges } of functions) for (const { count } of ranges) sum += count;
    }
  };
  // It answers before it returns.
  session.post('Profiler.takePreciseCoverage', add);
  return sum;
}
