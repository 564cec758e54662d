import { expect, it } from 'vitest';
import { greediest } from '../../../../src/modes/sockets/greediest.ts';
import { blocksOf } from '../../../../src/net/block.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { withRandom } from '../../../chaos/test-seed.ts';

interface One {
  readonly client: string;
  readonly bytes: number;
  readonly wasMoving: boolean;
}

const [address, host, network] = [0, 1, 2] as const;

async function orderOf(all: readonly One[], cap: number): Promise<One[]> {
  const order: One[] = [];
  for await (const one of greediest(all, cap, noPause)) order.push(one);
  return order;
}

function sumOf(all: readonly One[]): number {
  return all.reduce((sum, { bytes }) => sum + bytes, 0);
}

function mostOf(all: readonly One[], level: 0 | 1 | 2): number {
  const blocks = Map.groupBy(all, ({ client }) => blocksOf(client)[level]);
  return Math.max(0, ...[...blocks.values()].map(sumOf));
}

it('the address that holds most has connections ended until it holds no more than the cap, those that do not move first, the largest first', async () => {
  const client = '192.0.2.1';
  const still = { client, bytes: 10, wasMoving: false };
  const large = { client: '203.0.113.1', bytes: 90, wasMoving: true };
  const small = { client, bytes: 5, wasMoving: false };
  const moving = { client, bytes: 40, wasMoving: true };
  const other = { client: '198.51.100.1', bytes: 40, wasMoving: false };
  const order = await orderOf([moving, small, other, still, large], 40);
  expect(order.slice(0, 3)).toEqual([large, still, small]);
  // None holds more than the cap then, and both end where that is not enough.
  expect(new Set(order.slice(3))).toEqual(new Set([moving, other]));
  expect(await orderOf([], 0)).toEqual([]);
});

it('connections whose buffers become empty during the search do not end, and it ends', async () => {
  const all = Array.from({ length: 16 }, (_each, n) => {
    return { client: `192.0.2.${n}`, bytes: 10, wasMoving: false };
  });
  const empty = () => {
    for (const one of all) one.bytes = 0;
  };
  let pauses = 0;
  const pause = () => {
    empty();
    pauses += 1;
    if (pauses > 100) throw new Error('it does not end');
    return undefined;
  };
  let ended = 0;
  for await (const _one of greediest(all, 1000, pause)) ended += 1;
  expect(ended).toBe(0);
  for (const one of all) one.bytes = 10;
  for await (const _one of greediest(all, 5, noPause)) {
    ended += 1;
    empty();
  }
  expect(ended).toBe(1);
});

it.each([
  ['/64', host, (n: number) => `2001:db8::${n}`],
  ['/48', network, (n: number) => `2001:db8:0:${n}::1`],
  ['/24 of IPv4', network, (n: number) => `192.0.2.${n}`],
])(
  'an owner of a %s keeps no more than the cap, and a client with less keeps all',
  async (_, level, at) => {
    const many = Array.from({ length: 10 }, (_each, n) => {
      return { client: at(n), bytes: 5, wasMoving: true };
    });
    const other = { client: '2001:db8:9::1', bytes: 20, wasMoving: false };
    const order = await orderOf([other, ...many], 20);
    const before = order.slice(0, order.indexOf(other));
    const left = many.filter((one) => !before.includes(one));
    expect(mostOf(left, level)).toBeLessThanOrEqual(20);
    // A client that holds more than the cap has its connection ended first.
    expect((await orderOf([...many, other], 19))[0]).toBe(other);
  },
);

it('no network is taken from while an address holds more than the cap, and none falls below the cap before all have', () =>
  withRandom(async (random) => {
    for (let round = 0; round < 50; round += 1) {
      const cap = 100 + random.below(300);
      const all = Array.from({ length: random.below(60) }, () => ({
        client: `2001:db8:${random.below(3)}:${random.below(2)}::${random.below(3)}`,
        bytes: 1 + random.below(100),
        wasMoving: random.below(2) === 0,
      }));
      const order = await orderOf(all, cap);
      expect(new Set(order)).toEqual(new Set(all));
      let left: readonly One[] = all;
      for (const next of order) {
        const levels = [address, host, network] as const;
        const level = levels.find((one) => mostOf(left, one) > cap);
        if (level === undefined) break;
        const inBlock = left.filter(
          ({ client }) => blocksOf(client)[level] === blocksOf(next.client)[level],
        );
        expect(sumOf(inBlock)).toBeGreaterThan(cap);
        const still = inBlock.filter(({ wasMoving }) => !wasMoving);
        const first = still.length > 0 ? still : inBlock;
        expect(first).toContain(next);
        expect(2 * next.bytes).toBeGreaterThan(Math.max(...first.map(({ bytes }) => bytes)));
        left = left.filter((one) => one !== next);
      }
    }
  }));

it.each([
  ['of one client', () => '192.0.2.1'],
  ['of as many clients', (i: number) => `2001:db8::${i}`],
  ['of as many networks', (i: number) => `2001:db8:${i}::1`],
])(
  'ending connections %s looks at each no more often where there are many',
  async (_, clientOf) => {
    const looks = async (size: number): Promise<number> => {
      let count = 0;
      const all = Array.from({ length: size }, (_each, i) => ({
        get client() {
          count += 1;
          return clientOf(i);
        },
        bytes: 1 + ((i * 7919) % 10_007),
        wasMoving: i % 3 === 0,
      }));
      for await (const _one of greediest(all, 10_000_000, noPause));
      return count;
    };
    // 4 and a logarithm.
    expect((await looks(4000)) / (await looks(1000))).toBeLessThan(6);
  },
);
