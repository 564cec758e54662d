import { spawnSync } from 'node:child_process';
import { describe, expect, it, vi } from 'vitest';
import { MemoryWatch } from '../../../src/cli/heap.ts';

// It starts a process, which takes its time on a busy machine.
vi.setConfig({ testTimeout: 60_000 });

const MB = 1024 * 1024;

/** What is said of each megabyte count, a second apart, from the end of the start on. */
function said(...megabytes: readonly number[]): boolean[] {
  const watch = new MemoryWatch(0);
  return megabytes.map((count, i) => watch.sample(15_000 + 1000 * i, count * MB));
}

describe('memory is saved', () => {
  it('once it has grown, until it is back', () => {
    expect(said(100, 120, 127)).toEqual([false, false, false]);
    expect(said(100, 129, 115, 109, 100)).toEqual([false, true, true, false, false]);
  });

  it('no longer than it takes to see that it is in use', () => {
    const inUse = said(100, ...Array.from({ length: 60 }, () => 150));
    expect(inUse.slice(0, 33)).toEqual([
      false,
      ...Array.from({ length: 30 }, () => true),
      false,
      false,
    ]);
    expect(inUse.slice(33)).not.toContain(true);
  });

  it('not while the process starts', () => {
    const watch = new MemoryWatch(0);
    const start = [50, 60, 100, 150].map((count, i) => watch.sample(1000 * i, count * MB));
    expect(start).toEqual([false, false, false, false]);
    expect(watch.sample(15_000, 150 * MB)).toBe(false);
  });
});

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
function reducing(...flags: readonly string[]): string[] {
  const set = flags.map((flag) => `v8.setFlagsFromString('${flag}');`).join(' ');
  const program = `import v8 from 'node:v8'; ${set} ${work}`;
  const args = ['--trace-gc', '--max-semi-space-size=4', '--input-type=module', '-e', program];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stdout).toContain('Mark-Compact');
  return stdout.split('\n').filter((line) => line.includes('Mark-Compact (reduce)'));
}

it('V8 gives pages back as long as it is told to', () => {
  expect(reducing()).toEqual([]);
  expect(reducing('--optimize-for-size').length).toBeGreaterThan(0);
  expect(reducing('--optimize-for-size', '--no-optimize-for-size')).toEqual([]);
});
