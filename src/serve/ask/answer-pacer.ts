import type { Clock } from '../../time/clock.ts';
import { Pacer } from '../../time/pacer.ts';
import { RecentResults, waitedAtMost } from '../../time/recent.ts';

/**
 * How long an answer runs in one turn of the event loop before it yields to changes. A change takes
 * several turns, and waits this long in each.
 */
const sliceMs = 0.25;

/**
 * How long a question waits for a reading of the kernel; then it uses what was known before. On a
 * node with thirty processes for each core, readings took 0.3 s: people wait rather than hear that
 * nothing is wrong.
 */
export const readingPatienceMs = 1000;

/** Looks again after a while. Concurrent callers share the work, and none waits longer. */
export type Refresh = (patienceMs?: number) => Promise<void>;

/** For a look at what changes seldom; see `refreshing`. */
export const seldomKept = { keepMs: 5000, restFactor: 100 } as const;

/** `kept`: how long a look serves, and the shortest pause after it, in parts of its duration. */
export function refreshing(
  { clock }: { readonly clock: Pick<Clock, 'now'> },
  kept: { readonly keepMs: number; readonly restFactor: number },
  look: () => Promise<void> | void,
): Refresh {
  const looks = new RecentResults<void>({ ...kept, clock });
  return (patienceMs = readingPatienceMs) => {
    return waitedAtMost(
      patienceMs,
      looks.of('', async () => look()),
    );
  };
}

/** Paces what answers need. */
export function answerPacer({ clock }: { readonly clock: Pick<Clock, 'now' | 'turn'> }): Pacer {
  return new Pacer(clock, sliceMs);
}
