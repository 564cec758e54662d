/** The first command of the README, as it is run there. */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const main = resolve(import.meta.dirname, '..', '..', 'src', 'main.ts');

test('the demo forwards connections to every backend, loses none, and shows the kernel', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [main, 'demo']);
  const totals = [...stdout.matchAll(/([\d,]+) connections, (\d+) failed/g)];
  expect(totals).toHaveLength(2);
  expect(totals[0]?.[1]).toBe('3,000');
  for (const [, , failed] of totals) expect(failed).toBe('0');
  for (const pod of ['pod-a', 'pod-b', 'pod-c'])
    expect(stdout).toMatch(new RegExp(`${pod} +[1-9]`));
  expect(stdout).toMatch(/10\.96\.0\.10 \. tcp \. 80 : goto cluster-3/);
  expect(stdout).toMatch(/10\.244\.0\.13 \. 8080/);
});
