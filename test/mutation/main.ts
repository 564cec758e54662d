/**
 * `npm run mutate -- FOLDER...`: changes one place of the source after the other, in memory only,
 * and looks whether a test fails: those of the same folder, then those elsewhere that run its file,
 * and last those that count steps, in which all else is slow.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { matchesGlob } from 'node:path';
import { parseArgs } from 'node:util';
import { testsThatRun } from './coverage.ts';
import { whySame } from './equivalents.ts';
import { type Mutant, mutantsOf, sampleOf } from './mutants.ts';
import { countsSteps, Runner } from './run.ts';

const usage = `usage: npm run mutate -- FOLDER... [options]
  --sample N   the most mutants of a folder (60)
  --seed S     which of them (1)
  --timing     only lengths of times: constants, and defaults of settings
  --only REGEX of these only those in whose path or change it is found
  --again      what a run has killed before counts as killed
  --tests GLOB only these tests: 'test/unit/state/*.test.ts'
  --without GLOB  what only these tests notice: mutants that they kill, and no other test does
  --seconds S  the longest that tests may take for one mutant, the quickest first (20); on a busy
               machine they take longer, and too few are made
  --far GLOB   what survives must pass these, instead of those elsewhere that run the file`;

const { positionals: folders, values } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    timing: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    again: { type: 'boolean', default: false },
    tests: { type: 'string' },
    without: { type: 'string' },
    seconds: { type: 'string', default: '20' },
    far: { type: 'string' },
  },
});

/** Those that some run has killed, a line each. */
const killedPath = `build/killed-${folders.join('-').replaceAll('/', '-')}`;
const nameOf = ({ file, name }: Pick<Mutant, 'file' | 'name'>): string => `${file} ${name}`;
const known = values.again && existsSync(killedPath) ? readFileSync(killedPath, 'utf8') : '';
const killedBefore = new Set(known.split('\n'));

let nextId = 1;
function mutantsIn(folder: string): readonly Mutant[] {
  const paths = execFileSync('git', ['ls-files', folder]).toString().trim().split('\n');
  const files = paths.filter((path) => path.endsWith('.ts') && !path.includes('.gen.'));
  const all = files.flatMap((file) => {
    const found = mutantsOf(file, readFileSync(file, 'utf8'), nextId);
    nextId += found.length;
    return found;
  });
  const asked = all.filter((one) => {
    const why = whySame(nameOf(one));
    if (why === undefined) return one.timing || !values.timing;
    console.log(`equivalent: ${one.file}:${one.line}: ${one.name} (${why})`);
    return false;
  });
  const drawn = sampleOf(asked, Number(values.sample), Number(values.seed));
  return drawn.filter((one) => new RegExp(values.only).test(nameOf(one)));
}

/** Tests of the folder, and those above it that are of no other folder. */
function nearTo(folder: string): readonly string[] {
  const here = folder.replace(/^src\/?/, '').replace(/\/$/, '');
  const [top = '', ...below] = here.split('/');
  const above = below.length > 0 ? [`${top}/*.test.ts`] : [];
  const paths = [`${here}/**/*.test.ts`, ...above];
  return ['unit', 'real-time'].flatMap((kind) => paths.map((path) => `test/${kind}/${path}`));
}

/** Those that no test kills. Prints each. */
async function survivorsOf(
  mutants: readonly Mutant[],
  tests: readonly string[],
  without: readonly string[] = [],
): Promise<readonly Mutant[]> {
  if (mutants.length === 0 || tests.length === 0) return mutants;
  const budgetMs = Number(values.seconds) * 1000;
  const runner = await Runner.start(mutants, { include: tests, exclude: without, budgetMs });
  const survivors: Mutant[] = [];
  try {
    await runner.run(mutants, (mutant, { killedBy, triedBy }) => {
      const what = killedBy === undefined ? `survives ${triedBy} tests` : `killed by ${killedBy}`;
      console.log(`${what}: ${mutant.file}:${mutant.line}: ${mutant.name}`);
      if (killedBy === undefined) survivors.push(mutant);
      else appendFileSync(killedPath, `${nameOf(mutant)}\n`);
    });
  } finally {
    await runner.close();
  }
  return survivors;
}

if (folders.length === 0) {
  console.error(usage);
  process.exitCode = 2;
} else {
  const byFolder = folders.map((folder) => ({ folder, mutants: mutantsIn(folder) }));
  const all = byFolder.flatMap(({ mutants }) => mutants);
  const { far, tests, without } = values;
  const left = without === undefined ? [] : [without];
  const unnoticed = new Set(await survivorsOf(without === undefined ? [] : all, left));
  const asked = all.filter((mutant) => !unnoticed.has(mutant));
  const globs = tests === undefined ? folders.flatMap(nearTo) : [tests];
  const further = async (all: readonly Mutant[]): Promise<readonly string[]> => {
    const ran = await testsThatRun(new Set(all.map(({ file }) => file)));
    return ran.filter((test) => !globs.some((glob) => matchesGlob(test, glob)));
  };
  const stages = [
    () => globs,
    far === undefined ? further : () => [far],
    () => globs.map(countsSteps),
  ];
  let surviving: readonly Mutant[] = asked.filter((one) => !killedBefore.has(nameOf(one)));
  for (const stage of stages) {
    if (surviving.length > 0)
      surviving = await survivorsOf(surviving, await stage(surviving), left);
  }
  const survivors = new Set(surviving);
  console.log('| folder | mutants | killed | survived | score |\n|---|---|---|---|---|');
  for (const { folder, mutants: drawn } of byFolder) {
    const mutants = drawn.filter((mutant) => asked.includes(mutant));
    const survived = mutants.filter((mutant) => survivors.has(mutant)).length;
    const killed = mutants.length - survived;
    const score = ((100 * killed) / Math.max(1, mutants.length)).toFixed(1);
    console.log(`| ${folder} | ${mutants.length} | ${killed} | ${survived} | ${score} % |`);
  }
}
