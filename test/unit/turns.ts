import { onTestFinished, vi } from 'vitest';

/** Fake timers take it from `globalThis`. */
const { setImmediate } = globalThis;

/**
 * Resolves in the first turn of the event loop in which `holds` is true: for what the kernel and
 * other threads do, without a timer. What never holds is ended by the time limit of the test.
 */
export async function turnsUntil(holds: () => boolean | Promise<boolean>): Promise<void> {
  let isOver = false;
  onTestFinished(() => {
    isOver = true;
  });
  while (!isOver && !(await holds())) await new Promise((resolve) => setImmediate(resolve));
}

type Fake = NonNullable<NonNullable<Parameters<typeof vi.useFakeTimers>[0]>['toFake']>[number];

/** Timers, and limits of signals that abort, come by `vi.advanceTimersByTimeAsync` alone. */
export function fakeTimeouts(...more: readonly Fake[]): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', ...more] });
  const after = globalThis.setTimeout;
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    const controller = new AbortController();
    after(() => controller.abort(new DOMException('it took too long', 'TimeoutError')), ms);
    return controller.signal;
  });
  onTestFinished(() => {
    timeout.mockRestore();
    vi.useRealTimers();
  });
}
