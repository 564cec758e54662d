import type { Clock } from '../../time/clock.ts';
import { Pacer } from '../../time/pacer.ts';

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

/** Paces what answers need. */
export function answerPacer({ clock }: { readonly clock: Pick<Clock, 'now' | 'turn'> }): Pacer {
  return new Pacer(clock, sliceMs);
}
