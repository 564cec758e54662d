/** `/go-runner` of the image, as pods of kops start it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { root } from './manifests.ts';

const runner = join(root, 'deploy/image/go-runner');

function logFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-go-runner-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'kube-proxy.log');
}

/** Runs a script of Node's by it; `stopAt`: gets SIGTERM when that is in its output. */
async function run(flags: readonly string[], script: string, stopAt?: string) {
  const program = script === '' ? [] : [process.execPath, '-e', script];
  const child = spawn(process.execPath, [runner, ...flags, ...program]);
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (part) => {
      output[name] += String(part);
      const isAsked = stopAt !== undefined && output[name].includes(stopAt);
      if (isAsked && !child.killed) child.kill('SIGTERM');
    });
  }
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...output };
}

const speak = "console.log('out'); console.error('err'); process.exitCode = 3";
const both = 'err\nout\n';

/** Two pipes have no order of their lines. */
function sorted(text: string): string {
  return text
    .split(/(?<=\n)/)
    .sort()
    .join('');
}

it.each([
  [['--also-stdout', '--redirect-stderr=true'], both, both, ''],
  [['-also-stdout=true'], both, both, ''],
  [[], both, '', ''],
  [['--redirect-stderr=false'], 'out\n', '', 'err\n'],
])('with a log file and %j', async (flags, logged, stdout, stderr) => {
  const file = logFile();
  const ended = await run([`--log-file=${file}`, ...flags], speak);
  expect({ ...ended, stdout: sorted(ended.stdout) }).toEqual({ code: 3, stdout, stderr });
  expect(sorted(readFileSync(file, 'utf8'))).toBe(logged);
  await run(['--log-file', file, ...flags], speak);
  expect(sorted(readFileSync(file, 'utf8'))).toBe(sorted(logged.repeat(2)));
});

it('without a log file, all output goes to standard output', async () => {
  const { stdout, ...ended } = await run([], speak);
  expect([sorted(stdout), ended]).toEqual([both, { code: 3, stderr: '' }]);
});

it('passes signals on, and ends with the exit code of the program', async () => {
  const script =
    "process.on('SIGTERM', () => { console.log('over'); process.exit(5) }); process.stdin.resume(); console.log('ready')";
  expect(await run([], script, 'ready')).toMatchObject({ code: 5, stdout: 'ready\nover\n' });
  const killed = await run([], "console.log('ready'); process.stdin.resume()", 'ready');
  expect(killed.code).toBe(128 + 15);
});

it.each([
  [['--log-file=/nowhere/at/all'], 'ENOENT'],
  [['--log-file-size=1'], 'no flag --log-file-size'],
  [['--also-stdout'], 'usage: '],
])('fails with %j, and starts nothing', async (flags, words) => {
  const file = logFile();
  const script = words === 'usage: ' ? '' : `require('node:fs').writeFileSync('${file}', '')`;
  const { code, stderr } = await run(flags, script);
  expect(code).toBe(1);
  expect(stderr).toContain(`go-runner: `);
  expect(stderr).toContain(words);
  expect(existsSync(file)).toBe(false);
});
