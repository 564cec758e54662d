/**
 * How many times slower than a real machine this one may be. Emulated machines set
 * `FAIRLEAD_LAB_SLOWNESS`. The lab multiplies every wait by it, so that a late answer is not a
 * silence.
 */
const slowness = Number(process.env.FAIRLEAD_LAB_SLOWNESS ?? 1);

/** A wait that suits a real machine, as long as this machine needs it. */
export function paced(milliseconds: number): number {
  return milliseconds * slowness;
}

/**
 * The longest wait for an answer. It only costs time when a test fails. A machine with other work
 * may leave packets in its queues for seconds: a client sends again after 1, 3 and 7 s.
 */
export const answerMs = paced(10_000);

/**
 * The limit for what hangs, less than a test has, so that a failure names what it waited for. At a
 * load of 35, a process of Node took 20 s to begin.
 */
export const hangsMs = paced(100_000);
