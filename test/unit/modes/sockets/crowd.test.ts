import { describe, expect, it } from 'vitest';
import { Crowd, type Holding } from '../../../../src/modes/sockets/crowd.ts';
import { blocksOf } from '../../../../src/net/block.ts';
import type { Random } from '../../../chaos/random.ts';
import { withRandom } from '../../../chaos/test-seed.ts';

/** Of this share an address has much with 10, and a block with 320. */
const max = 5120;
const muchOf = [10, 320, 320] as const;

function holding(address: string): Holding {
  return { blocks: blocksOf(address), end: () => {} };
}

/** `count` of each address. */
function crowdOf(addresses: readonly string[], count: number): Crowd<Holding> {
  const crowd = new Crowd<Holding>();
  for (let i = 0; i < count; i += 1) for (const each of addresses) crowd.add(holding(each));
  return crowd;
}

describe('who has many addresses with few connections each', () => {
  const networks: [string, (n: number) => string, string, string][] = [
    ['a /64', (n) => `2001:db8::${n}`, '2001:db8::ffff', '2001:db8:0:1::1'],
    ['a /48', (n) => `2001:db8:0:${n}::1`, '2001:db8:0:ffff::1', '2001:db8:1::1'],
    ['a /24 of IPv4', (n) => `192.0.2.${n}`, '192.0.2.255', '192.0.3.1'],
  ];
  it.each(networks)('makes room as %s', (_, addressOf, inside, outside) => {
    const addresses = Array.from({ length: 80 }, (_each, n) => addressOf(n));
    const crowd = crowdOf(addresses, 4);
    // The address that has most.
    const [first, second] = [5, 5].map(() => holding(addressOf(7)));
    for (const one of [first!, second!]) crowd.add(one);
    const room = crowd.roomFor(blocksOf(outside), max)!;
    expect(room.blocks[0]).toBe(addressOf(7));
    expect([first, second]).not.toContain(room);
    // Who is in the block has as much, and so has a client with more than half.
    expect(crowd.roomFor(blocksOf(inside), max)).toBeUndefined();
    for (let i = 0; i < 161; i += 1) crowd.add(holding(outside));
    crowd.delete(room);
    expect(crowd.roomFor(blocksOf(outside), max)).toBeUndefined();
    // Few of all that there may be are not taken from.
    expect(crowdOf(addresses.slice(1), 4).roomFor(blocksOf(outside), max)).toBeUndefined();
  });

  it('makes room after an address that has much', () => {
    const crowd = crowdOf(
      Array.from({ length: 80 }, (_, n) => `2001:db8::${n}`),
      9,
    );
    const large = holding('192.0.2.1');
    for (let i = 0; i < 10; i += 1) crowd.add(i === 0 ? large : holding('192.0.2.1'));
    expect(crowd.roomFor(blocksOf('192.0.3.1'), max)).toBe(large);
  });
});

/** Of 320 addresses in four /64, and of two of these in one /48; or of 64 in two /24. */
function anyAddress(random: Random): string {
  const kind = random.below(8);
  if (kind === 0) return `192.0.${random.below(2)}.${random.below(32)}`;
  const network = kind < 5 ? 0 : random.below(4);
  return `2001:db8:${network >> 1}:${network & 1}::${random.below(80)}`;
}

/** Groups at this level, by name. */
function groupsOf(all: readonly Holding[], level: number): Map<string, Holding[]> {
  return Map.groupBy(all, ({ blocks }) => blocks[level]!);
}

function mostOf(groups: ReadonlyMap<string, readonly Holding[]>): number {
  return Math.max(0, ...[...groups.values()].map((its) => its.length));
}

it('who makes room is as a look at all clients says', () =>
  withRandom(async (random) => {
    const crowd = new Crowd<Holding>();
    const all = new Set<Holding>();
    const lookAtAll = (): void => {
      const newcomer = blocksOf(anyAddress(random));
      const found = crowd.roomFor(newcomer, max);
      const level = muchOf.findIndex((much, at) => {
        const groups = groupsOf([...all], at);
        const own = groups.get(newcomer[at]!)?.length ?? 0;
        return mostOf(groups) >= much && mostOf(groups) > 2 * own;
      });
      if (level < 0) {
        expect(found).toBeUndefined();
        return;
      }
      const groups = groupsOf([...all], level);
      const its = groups.get(found!.blocks[level]!)!;
      expect(its.length).toBe(mostOf(groups));
      const addresses = groupsOf(its, 0);
      const most = addresses.get(found!.blocks[0]!)!;
      expect(most.length).toBe(mostOf(addresses));
      expect(most[0]).toBe(found);
    };
    for (let step = 0; step < 4000; step += 1) {
      const few = step % 1000 < 600 ? 5 : 2;
      if (all.size > 0 && random.below(few) === 0) {
        const room = random.below(2) === 0 ? crowd.roomFor([], max) : undefined;
        const gone = room ?? random.pick([...all]);
        crowd.delete(gone);
        // Once more changes nothing.
        crowd.delete(gone);
        all.delete(gone);
      } else {
        const more = holding(anyAddress(random));
        crowd.add(more);
        all.add(more);
      }
      expect(crowd.isEmpty).toBe(all.size === 0);
      if (step % 10 === 0) lookAtAll();
    }
    for (const one of all) crowd.delete(one);
    expect(crowd.isEmpty).toBe(true);
  }));
