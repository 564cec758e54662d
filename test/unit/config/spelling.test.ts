import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseInt32, parseQuantity } from '../../../src/config/go-values.ts';
import { closeness, nearest } from '../../../src/config/spelling.ts';

/** The least number of edits, by definition. */
function edits(a: string, b: string): number {
  if (a === '' || b === '') return a.length + b.length;
  const isTurned = a.length > 1 && a[0] === b[1] && a[1] === b[0];
  return Math.min(
    edits(a.slice(1), b) + 1,
    edits(a, b.slice(1)) + 1,
    edits(a.slice(1), b.slice(1)) + (a[0] === b[0] ? 0 : 1),
    isTurned ? edits(a.slice(2), b.slice(2)) + 1 : Infinity,
  );
}

test('a word may be meant for another one if a third of its letters or fewer differ', () => {
  const word = fc.string({ unit: fc.constantFrom('a', 'b', 'C', 'c'), maxLength: 6 });
  fc.assert(
    fc.property(word, word, (a, b) => {
      const count = edits(a.toLowerCase(), b.toLowerCase());
      expect(closeness(a, b)).toBe(count <= Math.floor(a.length / 3) ? count : undefined);
    }),
    { numRuns: 300 },
  );
});

test('a long word may differ in three letters, and the first of the closest ones is meant', () => {
  const word = 'minSyncPeriod';
  expect([3, 4].map((count) => closeness(word, word.slice(count)))).toEqual([3, undefined]);
  expect(nearest('abcd', ['abxd', 'abcx', 'abcd', 'Abcd'])).toBe('abcd');
  expect(nearest('abcd', ['abxx', 'abcx', 'abcy'])).toBe('abcx');
});

test('the suffixes of quantities are powers of 1000 and of 1024', () => {
  const bytes = (text: string) => {
    const parsed = parseQuantity(text);
    return parsed.ok && parsed.value.bytes;
  };
  for (const [i, suffix] of ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'].entries()) {
    expect(bytes(`5000000000${suffix}`)).toBe(5e9 * 10 ** (3 * i - 9));
  }
  for (const [i, suffix] of ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'].entries()) {
    expect(bytes(`3${suffix}`)).toBe(3 * 1024 ** i);
  }
  expect(['1.5e3', '.0001', '+2', '1e3k', 'k', '1 k'].map(bytes)).toEqual([
    ...[1500, 1, 2, false, false, false],
  ]);
});

test.each([
  ['1_', '"1_": invalid syntax'],
  ['7'.repeat(101), `"${'7'.repeat(101)}": invalid syntax`],
  ['\u0001"\u2028\u{e0001}', String.raw`"\x01\"\u2028\U000e0001": invalid syntax`],
  ['-2147483649', '"-2147483649": value out of range'],
])('the whole number %j is refused as Go does', (text, error) => {
  expect(parseInt32(text)).toEqual({ ok: false, error: `strconv.ParseInt: parsing ${error}` });
});
