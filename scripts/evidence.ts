/**
 * `npm run evidence`: gathers what the last `npm test` of this commit has shown, with the seeds of the
 * simulation and the recorded benchmarks, in build/evidence: a page, and an archive with all of it.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { gzip, tar } from './image/layout.ts';
import { root, sourceDateEpoch, version } from './image/make.ts';
import { run } from './image/run.ts';
import { table } from './markdown.ts';

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

function page(): string {
  const lines = readFileSync(join(build, 'test-parts'), 'utf8').trim().split('\n');
  const rows = lines.map((line) => {
    const [part = '', code = '', seconds = ''] = line.split(' ');
    return [part, results[code] ?? `failed (${code})`, seconds, ...countsOf(part)];
  });
  const commit = run('git', ['log', '-1', '--format=%H %cI'], { cwd: root }).trim();
  const changes = run('git', ['status', '--porcelain'], { cwd: root }).trim();
  return `# What version ${version} has shown

- Commit: ${commit}${changes === '' ? '' : ', and changes that are not committed'}
- Linux ${release()}, ${process.arch}, Node ${process.version}

${table(['part of npm test', 'result', 'seconds', 'tests', 'failed', 'skipped'], rows)}

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
writeFileSync(join(folder, 'README.md'), page());
const archive = join(build, 'evidence', `${name}.tar`);
tar(join(build, 'evidence'), archive, sourceDateEpoch(), [name]);
console.log(gzip(archive));
