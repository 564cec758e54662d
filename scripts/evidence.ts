/**
 * `npm run evidence [-- --upstream FOLDER] [--key FILE] [--build FOLDER]`: gathers what the last
 * `npm test` of this commit has shown, with fuzzers, the seeds of the simulation and the recorded
 * benchmarks, in build/evidence: a page, and an archive with all of it.
 *
 *   --build FOLDER     has what tests and fuzzers have left, and gets the folder evidence; default:
 *                      build
 *   --upstream FOLDER  has a folder for each run of upstream's e2e: its JUnit files, and about.txt,
 *                      which says when, with which image, commit, kernel, mode and cluster
 *   --key FILE         signs the archive: a private key in PEM, ECDSA P-256
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { gzip, tar } from './image/layout.ts';
import { root, sourceDateEpoch, version } from './image/make.ts';
import { run } from './image/run.ts';
import { table } from './markdown.ts';
import { Signer } from './release/sign.ts';

const { values: options } = parseArgs({
  options: {
    build: { type: 'string', default: join(root, 'build') },
    upstream: { type: 'string' },
    key: { type: 'string' },
  },
});

const { build } = options;
const name = `fairlead-${version}-evidence`;
const folder = join(build, 'evidence', name);
/** What is gathered, if it is there, and its name in the archive. */
const sources = [
  [build, 'junit', 'junit'],
  [build, 'story-results.jsonl', 'story-results.jsonl'],
  [build, 'test-parts', 'parts.txt'],
  [build, 'fuzz/results.txt', 'fuzz.txt'],
  [root, 'bench/results', 'bench'],
  [root, 'test/simulation/seeds.ts', 'simulation-seeds.ts'],
  [root, 'docs/semantics.md', 'semantics.md'],
] as const;
/** Exit codes of parts that are neither success nor failure: scripts/test. */
const results: Readonly<Record<string, string>> = { 0: 'passed', 77: 'skipped', 78: 'not here' };

/** Tests, failures and skipped ones, as Vitest counts them in its first line. */
function countsOf(part: string): string[] {
  const path = join(build, 'junit', `${part}.xml`);
  if (!existsSync(path)) return ['', '', ''];
  const text = readFileSync(path, 'utf8');
  const [, tests = '', failures = ''] = /<testsuites [^>]*tests="(\d+)" failures="(\d+)"/.exec(
    text,
  )!;
  return [tests, failures, String(text.match(/<skipped/g)?.length ?? 0)];
}

/** Of each fuzzer and commit: seconds, inputs, and how often it found a fault (scripts/fuzz). */
function fuzzRows(): string[][] {
  const path = join(build, 'fuzz/results.txt');
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').trim().split('\n');
  const runs = lines.map(
    (line) => /^(\w{12})\w* (?:\S*\/)?(.*?): (?:(\d+) runs in (\d+) s|failed)/.exec(line)!,
  );
  const sum = (all: readonly RegExpExecArray[], at: number): string =>
    `${all.reduce((total, run) => total + Number(run[at] ?? 0), 0)}`;
  const byFuzzer = Map.groupBy(runs, ([, commit, fuzzer]) => `${fuzzer}\n${commit}`);
  return [...byFuzzer].map(([key, all]) => {
    const failed = all.filter(([, , , inputs]) => inputs === undefined).length;
    return [...key.split('\n'), sum(all, 4), sum(all, 3), `${failed}`];
  });
}

/** Of each run of upstream's e2e: what it was run with, and how many tests passed and failed. */
function upstreamRows(all: string): string[][] {
  return readdirSync(all).map((one) => {
    const read = (file: string): string => readFileSync(join(all, one, file), 'utf8');
    const junit = readdirSync(join(all, one)).filter((file) => /^junit.*\.xml$/.test(file));
    const tests = /<testcase name="\[It\] [^>]* status="(?!skipped|pending)(\w+)"/g;
    const ran = [...junit.map(read).join('').matchAll(tests)].map(([, status]) => status);
    const passed = ran.filter((status) => status === 'passed').length;
    return [one, read('about.txt').trim(), `${passed}`, `${ran.length - passed}`];
  });
}

function page(): string {
  const lines = readFileSync(join(build, 'test-parts'), 'utf8').trim().split('\n');
  const rows = lines.map((line) => {
    const [part = '', code = '', seconds = ''] = line.split(' ');
    return [part, results[code] ?? `failed (${code})`, seconds, ...countsOf(part)];
  });
  const commit = run('git', ['log', '-1', '--format=%H %cI'], { cwd: root }).trim();
  const { upstream } = options;
  const optional = (head: readonly string[], all: readonly string[][]): string =>
    all.length === 0 ? '' : `\n${table(head, all)}\n`;
  const e2e = upstream === undefined ? [] : upstreamRows(upstream);
  const changes = run('git', ['status', '--porcelain'], { cwd: root }).trim();
  return `# What version ${version} has shown

- Commit: ${commit}${changes === '' ? '' : ', and changes that are not committed'}
- Linux ${release()}, ${process.arch}, Node ${process.version}

${table(['part of npm test', 'result', 'seconds', 'tests', 'failed', 'skipped'], rows)}
${optional(['fuzzer', 'commit', 'seconds', 'inputs', 'faults'], fuzzRows())}\
${optional(["upstream's e2e", 'with', 'passed', 'failed'], e2e)}
Each test is in \`junit\`; each story, mode and family in \`story-results.jsonl\`; benchmarks, which ran
at other commits, in \`bench\`. \`npm run simulate -- --seed N\` repeats a seed.
`;
}

if (!existsSync(join(build, 'test-parts'))) {
  console.error('fairlead: npm test has not run in this checkout');
  process.exit(1);
}
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const [place, from, to] of sources) {
  const path = join(place, from);
  if (existsSync(path)) cpSync(path, join(folder, to), { recursive: true });
}
if (options.upstream !== undefined) {
  cpSync(options.upstream, join(folder, 'upstream'), { recursive: true });
}
writeFileSync(join(folder, 'README.md'), page());
const archive = join(build, 'evidence', `${name}.tar`);
tar(join(build, 'evidence'), archive, sourceDateEpoch(), [name]);
const zipped = gzip(archive);
if (options.key !== undefined) {
  const signer = new Signer(readFileSync(options.key, 'utf8'));
  writeFileSync(`${zipped}.sig`, signer.sign(readFileSync(zipped)));
}
console.log(zipped);
