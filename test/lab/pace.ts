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
