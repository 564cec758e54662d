import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { header, headerUrl } from '../../../scripts/generate.ts';
import { expressions, nftOps, replies, requests } from '../../../src/kernel/ops.ts';

test('the generated header is that of the schema: else run `node scripts/generate.ts`', () => {
  expect(readFileSync(headerUrl, 'utf8')).toBe(header());
});

test('no two records that can meet in one buffer share a code', () => {
  const submitted = [...Object.values(nftOps), ...Object.values(requests)];
  for (const shapes of [submitted, Object.values(replies), Object.values(expressions)]) {
    const codes = shapes.map(({ code }) => code);
    expect(new Set(codes).size).toBe(codes.length);
  }
});
