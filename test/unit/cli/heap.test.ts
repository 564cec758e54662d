import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it, vi } from 'vitest';

// It starts a process, which takes its time on a busy machine.
vi.setConfig({ testTimeout: 60_000 });

/** Allocates, and lets go of it again, until the heap was collected some times. */
const work = `
  let kept = [];
  for (let i = 0; i < 400; i += 1) {
    if (i % 50 === 0) kept = [];
    for (let j = 0; j < 10_000; j += 1) kept.push({ i, j });
    await new Promise(setImmediate);
  }
`;

/** The full collections that gave pages back, by --trace-gc. */
function reducing(before: string): string[] {
  const url = pathToFileURL(resolve('src/cli/heap.ts')).href;
  const program = `import { keepHeapSmall } from '${url}'; ${before} ${work}`;
  const args = ['--trace-gc', '--max-semi-space-size=4', '--input-type=module', '-e', program];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stdout).toContain('Mark-Compact');
  return stdout.split('\n').filter((line) => line.includes('Mark-Compact (reduce)'));
}

it('gives pages back while work goes on', () => {
  expect(reducing('')).toEqual([]);
  expect(reducing('keepHeapSmall();').length).toBeGreaterThan(0);
});
