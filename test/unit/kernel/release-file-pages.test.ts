import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { loadAddon } from '../../../src/kernel/addon.ts';

/** Resident bytes of files in mappings that are not writable. */
function residentBytes(): number {
  const mappings = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const constant = mappings.filter((one) => /^\S+ r-.p .* \//.test(one.split('\n')[0]!));
  return constant.reduce((sum, one) => sum + 1024 * Number(/^Rss: +(\d+)/m.exec(one)![1]), 0);
}

it('the pages of program files are released, and loaded again when they are used', () => {
  const before = residentBytes();
  const released = loadAddon().releaseFilePages();
  expect(released).toBeGreaterThan(before / 2);
  expect(residentBytes()).toBeLessThan(before);
  expect(JSON.parse(JSON.stringify({ still: 'running' }))).toEqual({ still: 'running' });
});
