import { expect, it } from 'vitest';
import { restAfter } from '../../../src/time/rest.ts';

it('a rest follows what the work took, for two minutes at most', () => {
  expect([0, 10, 29_999, 30_001, 100_000].map((tookMs) => restAfter(tookMs, 4))).toEqual([
    0, 40, 119_996, 120_000, 120_000,
  ]);
});
