import { constants } from 'node:os';
import { expect, test } from 'vitest';
import { errnoName } from '../../../src/kernel/submit.ts';

test.each([
  [1, 'EPERM'],
  [2, 'ENOENT'],
  [11, 'EAGAIN'],
  [17, 'EEXIST'],
  [85, 'ERESTART'],
  [95, 'EOPNOTSUPP'],
  [105, 'ENOBUFS'],
])('errno %d is %s', (number, name) => {
  expect(errnoName(number)).toBe(name);
});

test('every errno of Node has one of its names', () => {
  for (const number of new Set(Object.values(constants.errno))) {
    expect(constants.errno).toHaveProperty(errnoName(number), number);
  }
});

test('an errno without a name is shown as a number', () => {
  expect(errnoName(4000)).toBe('E4000');
});
