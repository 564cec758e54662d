import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Address, addressBytes, type CIDR, type Family } from '../../../src/net/address.ts';
import { rangesOf } from '../../../src/net/address-ranges.ts';

/** The addresses whose bytes before the last two are `high`. */
function addressOf(family: Family, high: number, low: number): Uint8Array {
  const bytes = new Uint8Array(addressBytes[family]).fill(high);
  bytes.set([low >> 8, low & 0xff], bytes.length - 2);
  return bytes;
}

/** Blocks at the beginning and at the end of the family's addresses, and in two of their bytes. */
const block = fc.record({
  high: fc.constantFrom(0, 0xff),
  low: fc.oneof(fc.nat(0x3ff), fc.integer({ min: 0xfe00, max: 0xffff })),
  hostBits: fc.nat(6),
});
/** Those of blocks, and some around them. */
const lows = Array.from({ length: 0x1_0000 }, (_, i) => i).filter((i) => i < 0x480 || i >= 0xfd80);
const family = fc.constantFrom<Family>('IPv4', 'IPv6');

type Block = typeof block extends fc.Arbitrary<infer T> ? T : never;

function cidrOf(of: Family, { high, hostBits, low }: Block): CIDR {
  const bytes = addressOf(of, high, low & ~((1 << hostBits) - 1));
  return { address: Address.from(bytes), prefixLength: 8 * bytes.length - hostBits };
}

function addressesOf({ high, hostBits, low }: Block): string[] {
  const first = low & ~((1 << hostBits) - 1);
  return Array.from({ length: 1 << hostBits }, (_, i) => `${high}/${first + i}`);
}

it('merged blocks hold their addresses and no others, in the fewest ranges, ascending', () => {
  fc.assert(
    fc.property(family, fc.array(block, { maxLength: 40 }), (of, blocks) => {
      const ranges = rangesOf(blocks.map((one) => cidrOf(of, one)));
      const inside = new Set(blocks.flatMap(addressesOf));
      let runs = 0;
      for (const high of [0, 0xff]) {
        for (const low of lows) {
          const isIn = inside.has(`${high}/${low}`);
          if (isIn && (low === 0 || !inside.has(`${high}/${low - 1}`))) runs += 1;
          if (ranges.holds(addressOf(of, high, low)) !== isIn) expect({ high, low }).toBe(isIn);
        }
      }
      expect(ranges.length).toBe(runs);
      const edges = [...ranges].flatMap(({ first, last }) => [first, last]);
      expect(edges).toEqual(edges.toSorted(Buffer.compare));
    }),
    { numRuns: 50 },
  );
});

it('merged blocks hold no address of the other family', () => {
  const ranges = rangesOf([cidrOf('IPv4', { high: 0, low: 0, hostBits: 6 })]);
  expect(ranges.holds(addressOf('IPv6', 0, 0))).toBe(false);
  expect(rangesOf([]).holds(addressOf('IPv4', 0, 0))).toBe(false);
});
