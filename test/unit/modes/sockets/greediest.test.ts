import { expect, it } from 'vitest';
import { Greediest } from '../../../../src/modes/sockets/greediest.ts';
import { withRandom } from '../../../chaos/random.ts';

interface One {
  readonly client: string;
  readonly bytes: number;
  readonly isMoving: boolean;
}

function orderOf(all: readonly One[]): One[] {
  const order = new Greediest<One>();
  for (const one of all) order.add(one, one.client, one.bytes, one.isMoving);
  const taken: One[] = [];
  for (let next = order.take(); next !== undefined; next = order.take()) taken.push(next);
  return taken;
}

function sumOf(all: readonly One[]): number {
  return all.reduce((sum, { bytes }) => sum + bytes, 0);
}

it('the client that holds most has a connection ended, first those that do not move', () => {
  const still = { client: 'a', bytes: 10, isMoving: false };
  const small = { client: 'a', bytes: 5, isMoving: false };
  const moving = { client: 'a', bytes: 40, isMoving: true };
  const other = { client: 'b', bytes: 50, isMoving: false };
  expect(orderOf([moving, small, other, still])).toEqual([still, other, small, moving]);
  expect(orderOf([])).toEqual([]);
});

it('each connection is ended in the order that a look at all of them gives', () =>
  withRandom(async (random) => {
    for (let round = 0; round < 50; round += 1) {
      const all = Array.from({ length: random.below(60) }, () => ({
        client: String(random.below(6)),
        bytes: random.below(100),
        isMoving: random.below(2) === 0,
      }));
      let left: readonly One[] = all;
      for (const taken of orderOf(all)) {
        const sums = Map.groupBy(left, ({ client }) => client);
        const most = Math.max(...[...sums.values()].map(sumOf));
        const its = sums.get(taken.client)!;
        expect(sumOf(its)).toBe(most);
        const still = its.filter(({ isMoving }) => !isMoving);
        const first = still.length > 0 ? still : its;
        expect(first).toContain(taken);
        expect(taken.bytes).toBe(Math.max(...first.map(({ bytes }) => bytes)));
        left = left.filter((one) => one !== taken);
      }
      expect(left).toEqual([]);
    }
  }));
