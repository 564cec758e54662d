import { expect, it } from 'vitest';
import { byName } from '../../../src/ask/words.ts';
import { HalfMinutes } from '../../../src/serve/half-minutes.ts';

it('counts of ten minutes are kept for each half minute, and older ones are forgotten', () => {
  let nowMs = 3_000_000;
  const counts = new HalfMinutes({ now: () => nowMs });
  const zeros = (count: number) => Array.from({ length: count }, () => 0);
  counts.add(2);
  nowMs += 29_999;
  counts.add(3);
  expect(counts.read()).toEqual([...zeros(19), 5]);
  nowMs += 1;
  expect(counts.read()).toEqual([...zeros(18), 5, 0]);
  nowMs += 17.5 * 30_000;
  counts.add(7);
  expect(counts.read()).toEqual([0, 5, ...zeros(17), 7]);
  nowMs += 2 * 30_000;
  expect(counts.read()).toEqual([...zeros(17), 7, 0, 0]);
  nowMs += 86_400_000;
  expect(counts.read()).toEqual(zeros(20));
});

it('names are sorted as people do, with numbers by their value', () => {
  const sorted = ['a', 'a-1', 'a-2', 'a-2b', 'a-10', 'a-10-1', 'a-99', 'a-100', 'ab', 'b-1'];
  expect(sorted.toReversed().sort(byName)).toEqual(sorted);
  expect([byName('a-1', 'a-1'), byName('1', 'a') < 0]).toEqual([0, true]);
});
