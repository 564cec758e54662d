/** Chance in a test: its failure names the seed, also where that is the test's own limit. */
import { onTestFailed } from 'vitest';
import { freshSeed, Random } from './random.ts';

/** A new seed for the test that runs, or that of FAIRLEAD_SEED, which repeats the choices. */
export function testSeed(): number {
  const seed = Number(process.env.FAIRLEAD_SEED ?? freshSeed());
  onTestFailed(({ task }) => {
    for (const error of task.result?.errors ?? []) {
      error.message = `FAIRLEAD_SEED=${seed}: ${error.message}`;
    }
  });
  return seed;
}

/** Runs a test with random choices. */
export function withRandom(test: (random: Random) => Promise<void>): Promise<void> {
  return test(new Random(testSeed()));
}
