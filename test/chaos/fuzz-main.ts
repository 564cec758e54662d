/** The part of `npm run fuzz` that is TypeScript: `fuzz-main.ts SECONDS [SEED]`, each boundary. */
import { boundaries, fuzzText } from './fuzz.ts';
import { freshSeed } from './random.ts';

const seconds = Number(process.argv[2] ?? 60);
const seed = Number(process.argv[3] ?? freshSeed());
for (const boundary of Object.keys(boundaries)) {
  const { executions, seconds: tookS } = await fuzzText(boundary, seed, { seconds });
  console.log(`${boundary}: ${executions} runs in ${tookS.toFixed(0)} s, seed ${seed}`);
}
