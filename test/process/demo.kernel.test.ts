/** The first command of the README, as it is run there: with the program that is shipped. */
import { execFile } from 'node:child_process';
import { dirname, resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { main } from './main.ts';

const root = resolve(import.meta.dirname, '..', '..');
const run = promisify(execFile);

const isBuilt = main.endsWith('.js');
const program = isBuilt ? main : resolve(root, 'build', 'program-of-demo', 'main.js');

beforeAll(async () => {
  if (!isBuilt) await run('sh', [resolve(root, 'scripts', 'build-program'), dirname(program)]);
});

test("the demo forwards connections to every backend, loses none, and shows the kernel's state", async () => {
  const { stdout } = await run(process.execPath, ['scripts/demo/main.ts', program], { cwd: root });
  const totals = [...stdout.matchAll(/([\d,]+) connections, (\d+) failed/g)];
  expect(totals).toHaveLength(3);
  expect(totals[0]?.[1]).toBe('3,000');
  for (const [, , failed] of totals) expect(failed).toBe('0');
  for (const pod of ['pod-a', 'pod-b', 'pod-c'])
    expect(stdout).toMatch(new RegExp(`${pod} +[1-9]`));
  const changes = [
    ...stdout.matchAll(/^ {2}pod-\w .* (\d+) writes? to the kernel, [\d,]+ bytes$/gm),
  ];
  expect(changes).toHaveLength(5);
  for (const [, writes] of changes) expect(Number(writes)).toBeGreaterThan(0);
  // Times would be those of the demo's own load.
  expect(stdout).not.toMatch(/\d (?:ms|µs|s)\b/);
  expect(stdout).toMatch(/\$ fairlead explain .*\n {2}Packet: .*10\.96\.0\.10:80\/TCP/);
  expect(stdout).toMatch(/\$ fairlead trace .*\n(?:.*\n)*? {2}Ended: +It was answered by/);
  expect(stdout).toMatch(/\$ nft flush table ip fairlead\n/);
  expect(stdout).toMatch(/10\.96\.0\.10 \. tcp \. 80 comment "demo\/web:http" : goto cluster-4/);
  expect(stdout).toMatch(/10\.244\.0\.13 \. 8080/);
});
