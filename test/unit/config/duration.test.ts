import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  formatDuration,
  parseDuration,
  parseIsoDuration,
  toMs,
} from '../../../src/config/duration.ts';

const nsMax = 2n ** 63n - 1n;

describe('a Go duration', () => {
  test.each([
    ['0', 0n, '0s'],
    ['0s', 0n, '0s'],
    ['-0', 0n, '0s'],
    ['1ns', 1n, '1ns'],
    ['1us', 1_000n, '1\u00b5s'],
    ['1\u00b5s', 1_000n, '1\u00b5s'],
    ['1\u03bcs', 1_000n, '1\u00b5s'],
    ['250ms', 250_000_000n, '250ms'],
    ['1.5s', 1_500_000_000n, '1.5s'],
    ['.5s', 500_000_000n, '500ms'],
    ['1.s', 1_000_000_000n, '1s'],
    ['90s', 90_000_000_000n, '1m30s'],
    ['24h', 86_400_000_000_000n, '24h0m0s'],
    ['1h30m10.000000001s', 5_410_000_000_001n, '1h30m10.000000001s'],
    ['+5s', 5_000_000_000n, '5s'],
    ['-1m', -60_000_000_000n, '-1m0s'],
    ['1s1s', 2_000_000_000n, '2s'],
    ['9223372036854775807ns', nsMax, '2562047h47m16.854775807s'],
  ])('%s is parsed and printed as %s ns, %s', (text, ns, printed) => {
    expect(parseDuration(text)).toEqual({ ok: true, value: ns });
    expect(formatDuration(ns)).toBe(printed);
  });

  test.each([
    ['', 'time: invalid duration ""'],
    ['-', 'time: invalid duration "-"'],
    ['.s', 'time: invalid duration ".s"'],
    ['s', 'time: invalid duration "s"'],
    ['PT30S', 'time: invalid duration "PT30S"'],
    ['30', 'time: missing unit in duration "30"'],
    ['1s5', 'time: missing unit in duration "1s5"'],
    ['1d', 'time: unknown unit "d" in duration "1d"'],
    ['1 s', 'time: unknown unit " s" in duration "1 s"'],
    ['9223372036854775808ns', 'time: invalid duration "9223372036854775808ns"'],
    ['3000000h', 'time: invalid duration "3000000h"'],
  ])('%j is rejected: %s', (text, error) => {
    expect(parseDuration(text)).toEqual({ ok: false, error });
  });

  test('of a megabyte of digits is rejected immediately', () => {
    expect(parseDuration('1'.repeat(1_000_000)).ok).toBe(false);
  });

  test('is parsed from its printed text as the same duration', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -nsMax, max: nsMax }), (ns) => {
        expect(parseDuration(formatDuration(ns))).toEqual({ ok: true, value: ns });
      }),
    );
  });

  test('becomes milliseconds without rounding to integers', () => {
    expect([toMs(1_500_000n), toMs(86_400_000_000_000n), toMs(-1n)]).toEqual([
      1.5, 86_400_000, -0.000001,
    ]);
  });
});

describe('an ISO 8601 duration', () => {
  test.each([
    ['PT0S', '0s'],
    ['PT1S', '1s'],
    ['PT30S', '30s'],
    ['PT60S', '1m0s'],
    ['PT120S', '2m0s'],
    ['PT1M30S', '1m30s'],
    ['PT0.5S', '500ms'],
    ['PT1,5M', '1m30s'],
    ['P1DT2H', '26h0m0s'],
    ['P2W', '336h0m0s'],
    ['-PT5S', '-5s'],
  ])('%s is %s', (text, go) => {
    const parsed = parseIsoDuration(text);
    expect(parsed.ok && formatDuration(parsed.value)).toBe(go);
  });

  test.each([
    ['30s', 'is not a duration: expected an ISO 8601 duration'],
    ['pt30s', 'is not a duration'],
    ['P', 'is incomplete'],
    ['PT', 'is incomplete'],
    ['P1DT', 'is incomplete'],
    ['P1Y', 'years and months have no fixed length'],
    ['P1M', 'years and months have no fixed length'],
    ['PT1.2.3S', '"1.2.3" is not a number'],
    ['P999999999D', 'is longer than 292 years'],
    ['', 'is not a duration'],
  ])('%j is rejected', (text, error) => {
    const parsed = parseIsoDuration(text);
    expect(parsed.ok ? '' : parsed.error).toContain(error);
  });
});
