/** How the share of an endpoint grows: from a tenth to all of it, by a tenth in each step. */

/** The parts that a share has, one after another: 10 %, 20 % … */
export const growthSteps = 10;

/** The time of one step of a share that grows for `growthMs`. */
export function growthStepMs(growthMs: number): number {
  return growthMs / (growthSteps - 1);
}

/** The part of its share that an endpoint has after this number of steps; from 1 on it is all. */
export function grownPart(stepsTaken: number): number {
  return (1 + stepsTaken) / growthSteps;
}
