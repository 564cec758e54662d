/** Runs before each test file: chooses the mutant, and counts which of them each test reaches. */
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** `reachedMax`: how often the mutant may be reached, more is an endless loop. */
    readonly chosen: {
      readonly id: number;
      readonly reachedMax: number;
      readonly longestMs: number;
    };
  }
  interface TaskMeta {
    /** How often the test reached each mutant. */
    reached?: Record<number, number>;
  }
}

const { id: chosen, reachedMax, longestMs } = inject('chosen');
const shared = globalThis as { mutant?: (id: number) => boolean };
let reached: Record<number, number> = {};

if (shared.mutant === undefined && longestMs > 0) {
  // Ends the process from another thread: this one may be in an endless loop.
  const end = `setTimeout(() => process.kill(process.pid, 'SIGKILL'), ${longestMs})`;
  new Worker(end, { eval: true }).unref();
}
shared.mutant = (id) => {
  const times = (reached[id] ?? 0) + 1;
  reached[id] = times;
  if (id === chosen && times > reachedMax) throw new Error('the mutant does not end');
  return id === chosen;
};
beforeEach(() => {
  reached = {};
});
afterEach(({ task }) => {
  task.meta.reached = reached;
});
