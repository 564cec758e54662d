import { expect, test } from 'vitest';
import type { Difference } from '../../../../src/tools/shadow/compare.ts';
import { type Look, lastingOf } from '../../../../src/tools/shadow/shadow.ts';

function difference(text: string, ...frontends: readonly string[]): Difference {
  return { family: 'IPv4', service: 'shop/web', text, frontends };
}

function look(differences: readonly Difference[], unread: readonly string[] = []): Look {
  return { compared: [], frontends: 1, unread, differences };
}

test('a difference lasts that every look has, as the last one found it', () => {
  const first = look([difference('a'), difference('b')], ['x', 'y']);
  expect(lastingOf(undefined, first)).toBe(first);
  const later = difference('b', '10.96.0.1:80/TCP');
  const second = lastingOf(first, look([later, difference('c')], ['y', 'z']));
  expect(second).toEqual(look([later], ['y']));
  // What comes back has not lasted.
  const third = lastingOf(second, look([difference('a'), later, difference('c')], ['x', 'y']));
  expect(third).toEqual(look([later], ['y']));
  expect(lastingOf(third, look([difference('a')]))).toEqual(look([]));
});
