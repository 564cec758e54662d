/** A process that was stopped at its work, or whose machine slept, seems to work for as long. */
const restMaxMs = 120_000;

/** How long work rests that took `tookMs`, and may take 1 of `factor + 1` parts of the time. */
export function restAfter(tookMs: number, factor: number): number {
  return Math.min(restMaxMs, factor * tookMs);
}
