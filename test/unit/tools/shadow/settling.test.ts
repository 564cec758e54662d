import { expect, test } from 'vitest';
import { type Difference, Settling } from '../../../../src/tools/shadow/compare.ts';

function difference(text: string, ...frontends: readonly string[]): Difference {
  return { family: 'IPv4', service: 'shop/web', text, frontends };
}

test('a lasting difference is reported once, and once more when it is gone', () => {
  const settling = new Settling(10_000);
  expect(settling.look([difference('a')], 0)).toEqual({ found: [], gone: [] });
  expect(settling.pending).toBe(1);
  const later = difference('a', '10.96.0.1:80/TCP');
  expect(settling.look([later], 10_000)).toEqual({ found: [later], gone: [] });
  expect([settling.pending, settling.lasting]).toEqual([0, [later]]);
  expect(settling.look([later], 11_000)).toEqual({ found: [], gone: [] });
  expect(settling.look([], 12_000)).toEqual({ found: [], gone: [later] });
  expect(settling.lasting).toEqual([]);
});

test('a difference that is gone before it has lasted is not reported, and starts again', () => {
  const settling = new Settling(10_000);
  settling.look([difference('a'), difference('b')], 0);
  expect(settling.look([difference('b')], 5000)).toEqual({ found: [], gone: [] });
  const both = [difference('a'), difference('b')];
  expect(settling.look(both, 10_000).found).toEqual([difference('b')]);
  expect(settling.pending).toBe(1);
});
