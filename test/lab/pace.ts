/**
 * How many times slower than real machines this one may be, `FAIRLEAD_LAB_SLOWNESS`; emulated ones
 * say it. Every wait of the lab is multiplied by it, so that a late answer is no silence.
 */
const slowness = Number(process.env.FAIRLEAD_LAB_SLOWNESS ?? 1);

/** A wait that is long enough on a real machine, for this one. */
export function paced(milliseconds: number): number {
  return milliseconds * slowness;
}
