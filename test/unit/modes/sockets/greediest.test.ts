import { expect, it } from 'vitest';
import { Greediest } from '../../../../src/modes/sockets/greediest.ts';
import { blocksOf } from '../../../../src/net/block.ts';
import { withRandom } from '../../../chaos/random.ts';

interface One {
  readonly client: string;
  readonly bytes: number;
  readonly isMoving: boolean;
}

function orderOf(all: readonly One[], much: number): One[] {
  const order = new Greediest<One>(much);
  for (const one of all) order.add(one, one.client, one.bytes, one.isMoving);
  const taken: One[] = [];
  for (let next = order.take(); next !== undefined; next = order.take()) taken.push(next);
  return taken;
}

function sumOf(all: readonly One[]): number {
  return all.reduce((sum, { bytes }) => sum + bytes, 0);
}

it('the client that holds most has a connection ended, first those that do not move', () => {
  const [a, b] = ['192.0.2.1', '192.0.2.2'];
  const still = { client: a!, bytes: 10, isMoving: false };
  const small = { client: a!, bytes: 5, isMoving: false };
  const moving = { client: a!, bytes: 40, isMoving: true };
  const other = { client: b!, bytes: 50, isMoving: false };
  for (const much of [0, 20, 1000]) {
    expect(orderOf([moving, small, other, still], much)).toEqual([still, other, small, moving]);
  }
  expect(orderOf([], 0)).toEqual([]);
});

it.each([
  ['/64', (n: number) => `2001:db8::${n}`],
  ['/48', (n: number) => `2001:db8:0:${n}::1`],
  ['/24 of IPv4', (n: number) => `192.0.2.${n}`],
])('an owner of a %s has connections ended before a client that holds more than each', (_, at) => {
  const many = Array.from({ length: 10 }, (_each, n) => ({
    ...{ client: at(n), bytes: 5, isMoving: true },
  }));
  const large = { client: '2001:db8:9::1', bytes: 19, isMoving: false };
  // Until its network holds less than that client.
  expect(orderOf([large, ...many], 20).indexOf(large)).toBe(7);
  expect(orderOf([large, ...many], 18).indexOf(large)).toBe(0);
});

it('each connection is ended in the order that a look at all of them gives', () =>
  withRandom(async (random) => {
    for (let round = 0; round < 50; round += 1) {
      const much = random.below(400);
      const all = Array.from({ length: random.below(60) }, () => ({
        client: `2001:db8:${random.below(3)}:${random.below(2)}::${random.below(3)}`,
        bytes: 1 + random.below(100),
        isMoving: random.below(2) === 0,
      }));
      let left: readonly One[] = all;
      for (const taken of orderOf(all, much)) {
        const groups = [0, 1, 2].map((level) =>
          Map.groupBy(left, ({ client }) => blocksOf(client)[level]!),
        );
        const mosts = groups.map((its) => Math.max(...[...its.values()].map(sumOf)));
        const level = mosts.findIndex((most, at) => most > much || at === 2);
        const inBlock = groups[level]!.get(blocksOf(taken.client)[level]!)!;
        expect(sumOf(inBlock)).toBe(mosts[level]);
        const byClient = Map.groupBy(inBlock, ({ client }) => client);
        const its = byClient.get(taken.client)!;
        expect(sumOf(its)).toBe(Math.max(...[...byClient.values()].map(sumOf)));
        const still = its.filter(({ isMoving }) => !isMoving);
        const first = still.length > 0 ? still : its;
        expect(first).toContain(taken);
        expect(taken.bytes).toBe(Math.max(...first.map(({ bytes }) => bytes)));
        left = left.filter((one) => one !== taken);
      }
      expect(left).toEqual([]);
    }
  }));
