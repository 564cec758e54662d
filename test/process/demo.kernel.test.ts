/** The first command of the README, as it is run there: with the program that is shipped. */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '..', '..');
const program = resolve(root, 'build', 'program-under-test');
const run = promisify(execFile);

beforeAll(() => run('sh', [resolve(root, 'scripts', 'build-program'), program]));

test('the demo forwards connections to every backend, loses none, and shows the kernel', async () => {
  const { stdout } = await run(process.execPath, [resolve(program, 'main.js'), 'demo']);
  const totals = [...stdout.matchAll(/([\d,]+) connections, (\d+) failed/g)];
  expect(totals).toHaveLength(2);
  expect(totals[0]?.[1]).toBe('3,000');
  for (const [, , failed] of totals) expect(failed).toBe('0');
  for (const pod of ['pod-a', 'pod-b', 'pod-c'])
    expect(stdout).toMatch(new RegExp(`${pod} +[1-9]`));
  // Noticed, worked out, in the kernel: the three parts are the whole.
  const changes = [...stdout.matchAll(/^ {2}pod-\w .*?((?: +[\d.]+ ms){4})$/gm)];
  expect(changes).toHaveLength(5);
  for (const [, cells] of changes) {
    const [noticed, worked, kernel, all] = [...cells!.matchAll(/[\d.]+/g)].map(Number);
    expect(noticed! + worked! + kernel!).toBeCloseTo(all!, 1);
  }
  expect(stdout).toMatch(/10\.96\.0\.10 \. tcp \. 80 comment "demo\/web:http" : goto cluster-3/);
  expect(stdout).toMatch(/10\.244\.0\.13 \. 8080/);
});
