import { describe, expect, it } from 'vitest';
import { retryAfterMs, statusError } from '../../../../src/source/kubernetes/errors.ts';
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

it.each([
  [300, 180_000],
  [240, 120_000],
  [200, 100_000],
])('the watch after one of %i s opens after %i ms', (seconds, reliefAfterMs) => {
  const range = { watchSecondsMin: seconds, watchSecondsMax: seconds };
  const flow = new WatchFlow({ ...defaultTiming, ...range });
  expect(flow.length('list')).toEqual({ seconds, reliefAfterMs });
});

it.each([
  [undefined, undefined, 0],
  [undefined, 3000, 3000],
  [2, undefined, 2000],
  [2, 3000, 3000],
  [61, undefined, 60_000],
  [undefined, 60_001, 60_000],
])(
  'a server that asks for %s s, or for %s ms in a header, is asked again after %i ms',
  (seconds, headerMs, ms) => {
    const details = { retryAfterSeconds: seconds };
    const error = statusError({ details }, { status: 429, words: '', retryAfterMs: headerMs });
    expect(retryAfterMs(error)).toBe(ms);
  },
);
