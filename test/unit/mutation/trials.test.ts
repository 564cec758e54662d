import { expect, it } from 'vitest';
import { Trials } from '../../mutation/trials.ts';

it.each([
  ['passes with each', [], '1 begun, 1 passed, 2 begun, 2 passed, 4 begun, 4 passed'],
  ['fails with one', [2], '1 begun, 1 passed, 2 begun, 2 killed, 4 begun, 4 passed'],
  [
    'fails without any after one',
    [2, 0],
    '1 begun, 1 passed, 2 begun, 2 unclear, 3 unclear, 4 unclear',
  ],
])(
  'says of a test that %s of the mutants that live what became of them',
  (_, failing, expected) => {
    const said: string[] = [];
    const isDead = (id: number): boolean => id === 3;
    const trials = new Trials([1, 2, 3, 4], isDead, (...result) => said.push(result.join(' ')));
    let next = trials.next(false);
    while (next !== undefined) next = trials.next((failing as number[]).includes(next));
    expect(said.join(', ')).toBe(expected);
  },
);
