import { describe, expect, it } from 'vitest';
import { isNewer } from '../../../../src/source/kubernetes/rollback-probe.ts';
import { defaultTiming } from '../../../../src/source/kubernetes/timing.ts';
import { WatchFlow } from '../../../../src/source/kubernetes/watch-flow.ts';

describe('isNewer', () => {
  it.each([
    ['10', '9', true],
    ['9', '10', false],
    ['10', '10', false],
    ['123456789012345678901235', '123456789012345678901234', true],
    ['99999999999999999999', '100000000000000000000', false],
  ])('compares integers of any length: %s after %s', (version, position, newer) => {
    expect(isNewer(version, position)).toBe(newer);
  });

  it.each([
    ['', '5'],
    ['05', '7'],
    ['a1', 'a2'],
    ['5', 'a'],
    ['5', undefined],
  ])('treats versions that it cannot compare as newer: %s after %s', (version, position) => {
    expect(isNewer(version, position)).toBe(true);
  });
});

it('is waited for by one short watch, where a server does not say it', () => {
  const flow = new WatchFlow(defaultTiming);
  flow.proven();
  const areShort = [1, 2].map(() => {
    flow.doubted();
    const { seconds } = flow.length('news');
    flow.began(performance.now());
    flow.ended();
    return seconds <= 10;
  });
  expect(areShort).toEqual([true, false]);
});
