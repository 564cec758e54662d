import { describe, expect, it } from 'vitest';
import { equality, listEquality } from '../../../src/net/equality.ts';

interface Point {
  readonly x: number;
  readonly label?: string;
  readonly path?: readonly number[];
  readonly text: string;
}

const samePoint = equality<Point>({
  x: 'is',
  label: 'is',
  path: listEquality<number>(Object.is),
  text: 'ignored',
});
const point: Point = { x: 1, path: [1, 2], text: '1' };

describe('equality', () => {
  it('is true for records whose compared fields are equal', () => {
    expect(samePoint(point, { ...point, path: [1, 2], text: 'one' })).toBe(true);
    expect(samePoint(undefined, undefined)).toBe(true);
  });

  it.each<Point | undefined>([
    { ...point, x: 2 },
    { ...point, label: '' },
    { ...point, path: [2, 1] },
    { ...point, path: [1] },
    { x: 1, text: '1' },
    undefined,
  ])('is false for %j', (other) => {
    expect(samePoint(point, other)).toBe(false);
    expect(samePoint(other, point)).toBe(false);
  });

  it('does not compile without a field', () => {
    // @ts-expect-error: `text` is missing.
    expect(equality<Point>({ x: 'is', label: 'is', path: 'is' })(point, point)).toBe(true);
  });
});
