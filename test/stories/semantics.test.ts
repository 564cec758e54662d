import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { linesOf, linesOfPage } from '../lab/report.ts';
import { stories } from './index.ts';

const PAGE = new URL('../../docs/semantics.md', import.meta.url);

test('each story has a unique name', () => {
  const names = stories.map(({ name }) => name);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
});

test('docs/semantics.md has a line for each story, and no other: create it with report.ts', () => {
  expect(linesOfPage(readFileSync(PAGE, 'utf8'))).toEqual(linesOf(stories));
});
