import { expect, it } from 'vitest';
import { madeAt } from '../../../src/net/made-at.ts';

it('a value is made once for each key', () => {
  const map = new Map<string, { readonly made: number }>();
  let count = 0;
  const of = (key: string) => {
    return madeAt(map, key, () => {
      count += 1;
      return { made: count };
    });
  };
  expect([of('a'), of('b'), of('a')]).toEqual([{ made: 1 }, { made: 2 }, { made: 1 }]);
  expect([...map.keys()]).toEqual(['a', 'b']);
});
