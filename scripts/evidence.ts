/**
 * `npm run evidence [-- --upstream FOLDER] [--key FILE]`: gathers what the last `npm test` of this
 * commit has shown, with the seeds of the simulation and the recorded benchmarks, in
 * build/evidence: a page, and an archive with all of it.
 *
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
  options: { upstream: { type: 'string' }, key: { type: 'string' } },
});

const build = join(root, 'build');
const name = `fairlead-${version}-evidence`;
const folder = join(build, 'evidence', name);
/** What is gathered, if it is there, and its name in the archive. */
const sources = {
  'build/junit': 'junit',
  'build/story-results.jsonl': 'story-results.jsonl',
  'build/test-parts': 'parts.txt',
  'bench/results': 'bench',
  'test/simulation/seeds.ts': 'simulation-seeds.ts',
  'docs/semantics.md': 'semantics.md',
};
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
  const e2e =
    upstream === undefined
      ? ''
      : `\n${table(["upstream's e2e", 'with', 'passed', 'failed'], upstreamRows(upstream))}\n`;
  const changes = run('git', ['status', '--porcelain'], { cwd: root }).trim();
  return `# What version ${version} has shown

- Commit: ${commit}${changes === '' ? '' : ', and changes that are not committed'}
- Linux ${release()}, ${process.arch}, Node ${process.version}

${table(['part of npm test', 'result', 'seconds', 'tests', 'failed', 'skipped'], rows)}
${e2e}
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
for (const [from, to] of Object.entries(sources)) {
  if (existsSync(join(root, from))) cpSync(join(root, from), join(folder, to), { recursive: true });
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
