/**
 * The part of `npm run fuzz` that is TypeScript: `fuzz-main.ts SECONDS SEED BOUNDARY`, and with
 * `--list` the names of the boundaries.
 */
import { boundaries, fuzzRepetitions, fuzzText } from './fuzz.ts';

/** One input may take this much CPU time, as an object of all resources. */
const cpuSeconds = 60;

const [first, seed, boundary = ''] = process.argv.slice(2);
if (first === '--list') {
  console.log(Object.keys(boundaries).join('\n'));
} else if (boundary in boundaries) {
  await fuzzRepetitions(boundary);
  const limits = { seconds: Number(first), cpuSeconds };
  const { executions, seconds: tookS } = await fuzzText(boundary, Number(seed), limits);
  console.log(`${boundary}: ${executions} runs in ${tookS.toFixed(0)} s, seed ${seed}`);
} else {
  console.error('usage: fuzz-main.ts SECONDS SEED BOUNDARY, or --list');
  process.exitCode = 2;
}
