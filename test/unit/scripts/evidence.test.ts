/** The page and the archive of what tests and fuzzers have shown. */
import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, verify } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../../..');
const build = mkdtempSync(join(tmpdir(), 'fairlead-evidence-test-'));
afterAll(() => rmSync(build, { recursive: true }));

function file(path: string, content: string): void {
  mkdirSync(join(build, path, '..'), { recursive: true });
  writeFileSync(join(build, path), content);
}

it('has tests, hours of fuzzers by commit, and upstream’s tests, and is signed', () => {
  const [old, now] = ['1', '2'].map((digit) => digit.repeat(40));
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  file('key.pem', privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  file('test-parts', 'unit 0 12\nvm 77 0\nkernel 1 34\n');
  file('junit/unit.xml', '<testsuites tests="3" failures="1"><skipped/></testsuites>');
  file(
    'fuzz/results.txt',
    `${old} build/native/fuzz_encode: 5 runs in 60 s, seed 7, 9 inputs kept\n` +
      `${now} HTTP ports: 10 runs in 61 s, seed 7\n${now} HTTP ports: 20 runs in 3600 s, seed 8\n` +
      `${now} build/native/fuzz_encode 1000 8 60: failed\n`,
  );
  file('upstream/night/about.txt', 'Linux 6.18\n');
  const said = ['passed', 'passed', 'skipped', 'failed'].map(
    (status) => `<testcase name="[It] one" status="${status}">`,
  );
  file('upstream/night/junit_01.xml', said.join('\n'));
  const args = ['--build', build, '--upstream', join(build, 'upstream')];
  const script = join(root, 'scripts/evidence.ts');
  const archive = execFileSync('node', [script, ...args, '--key', join(build, 'key.pem')])
    .toString()
    .trim();

  const list = execFileSync('tar', ['-tzf', archive]).toString();
  const page = execFileSync('tar', ['-xzOf', archive, /^.*\/README\.md$/m.exec(list)![0]]);
  const rows = page.toString().match(/^\| (?!---).*$/gm);
  expect(rows?.map((row) => row.slice(2, -2).split(' | '))).toEqual([
    ['part of npm test', 'result', 'seconds', 'tests', 'failed', 'skipped'],
    ['unit', 'passed', '12', '3', '1', '1'],
    ['vm', 'skipped', '0', '', '', ''],
    ['kernel', 'failed (1)', '34', '', '', ''],
    ['fuzzer', 'commit', 'seconds', 'inputs', 'faults'],
    ['fuzz_encode', old!.slice(0, 12), '60', '5', '0'],
    ['HTTP ports', now!.slice(0, 12), '3661', '30', '0'],
    ['fuzz_encode 1000 8 60', now!.slice(0, 12), '0', '0', '1'],
    ["upstream's e2e", 'with', 'passed', 'failed'],
    ['night', 'Linux 6.18', '2', '1'],
  ]);
  expect(list).toContain('/fuzz.txt');
  const signature = Buffer.from(readFileSync(`${archive}.sig`, 'latin1'), 'base64');
  expect(verify('sha256', readFileSync(archive), publicKey, signature)).toBe(true);
});
