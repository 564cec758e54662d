import { expect, it } from 'vitest';
import { openFilesMax } from '../../../src/host/process.ts';

it.each([
  ['Max open files            1500                 20000                files', 1500],
  ['Max open files            unlimited            unlimited            files', 2 ** 53 - 1],
  [undefined, 1024],
])('the limit of open files is read from %s', (line, max) => {
  const read = (path: string): string | undefined =>
    path === '/proc/self/limits' && line !== undefined ? `Limit\n${line}\nMax` : undefined;
  expect(openFilesMax({ read })).toBe(max);
});
