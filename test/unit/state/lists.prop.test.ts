import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Address, addressBytes, type CIDR, cidrKey } from '../../../src/net/address.ts';
import { addressList, blockList, mayHaveAny } from '../../../src/net/address-columns.ts';
import { arrayMax, Columns, copyOfPart, type List, sameList } from '../../../src/net/list.ts';
import { protocols } from '../../../src/net/protocol.ts';
import { hintList } from '../../../src/source/decode/endpoint-columns.ts';
import { packedPorts } from '../../../src/state/port-list.ts';
import { finish } from '../../../src/state/steps.ts';
import type { SlicePort } from '../../../src/state/types.ts';

const long = { minLength: arrayMax + 1, maxLength: 60 } as const;

const ipv4 = fc.uint8Array({ minLength: 4, maxLength: 4 }).map((bytes) => Address.from(bytes));
const ipv6 = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => Address.from(bytes));
const block = (address: fc.Arbitrary<Address>): fc.Arbitrary<CIDR> =>
  fc.tuple(address, fc.nat(128)).map(([one, prefixLength]) => ({
    address: one,
    prefixLength: Math.min(prefixLength, 8 * addressBytes[one.family]),
  }));
const name = fc.string({ maxLength: 300, unit: fc.constantFrom('a', '-', 'é', '名', '\n', '') });
const number = fc.nat(65_535);
const port = fc.record({
  name,
  protocol: fc.constantFrom(...protocols),
  port: number,
  nodePort: number,
});

/** Checks that a list to keep reads as the array that it was made from. */
function expectSame<T>(kept: List<T>, items: readonly T[]): void {
  expect([...kept]).toEqual(items);
  expect(kept.length).toBe(items.length);
  expect(items.map((_, i) => kept.at(i))).toEqual(items);
  expect(kept.at(items.length)).toBeUndefined();
  expect(kept.map((item) => item)).toEqual(items);
  expect(kept.slice(2, 9)).toEqual(items.slice(2, 9));
  expect(kept.filter((item) => item === kept.at(0))).toEqual(
    [...kept].filter((item) => item === kept.at(0)),
  );
}

const never = (): boolean => {
  throw new Error('columns are compared as a whole');
};

const packed = <T extends SlicePort>(ports: readonly T[]) => finish(packedPorts(ports));

describe('A list in columns', () => {
  it('has the addresses that it was made from, of one family or both', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.array(ipv4, long), fc.array(fc.oneof(ipv4, ipv6), long)),
        (addresses) => {
          const kept = addressList(addresses);
          expectSame(kept, addresses);
          expect(kept.some(({ key }) => key === addresses.at(-1)!.key)).toBe(true);
          expect(kept.some(() => false)).toBe(false);
        },
      ),
    );
  });

  it('is found to have an address that it has, and none of which it has no bytes', () => {
    const few = fc.uint8Array({ min: 1, max: 2, minLength: 4, maxLength: 4 });
    const alike = fc.oneof(
      few.map((bytes) => Address.from(bytes)),
      ipv6,
    );
    fc.assert(
      fc.property(fc.array(alike, { maxLength: 40 }), alike, (addresses, one) => {
        const isAmong = mayHaveAny(new Set([one.key, Address.ofIPv4(0x09090909).key]));
        const has = addresses.some(({ key }) => key === one.key);
        for (const list of [addresses, addressList(addresses)]) {
          if (list === addresses || has) expect(isAmong(list)).toBe(has);
        }
        const others = mayHaveAny(new Set([Address.ofIPv4(0x09090909).key]));
        expect(others(addressList(addresses.filter(({ family }) => family === 'IPv4')))).toBe(
          false,
        );
      }),
    );
  });

  it('has the blocks that it was made from', () => {
    const lists = fc.oneof(
      fc.array(block(ipv4), long),
      fc.array(fc.oneof(block(ipv4), block(ipv6)), long),
    );
    fc.assert(
      fc.property(lists, (blocks) => {
        expectSame(blockList(blocks), blocks);
        expect(blockList(blocks).map(cidrKey)).toEqual(blocks.map(cidrKey));
      }),
    );
  });

  it('has the ports that it was made from, whatever their names', () => {
    fc.assert(fc.property(fc.array(port, long), (ports) => expectSame(packed(ports), ports)));
  });

  it('has the zones that it was made from', () => {
    const zones = fc.array(fc.oneof(fc.constant('zone'), name), { maxLength: 4 });
    fc.assert(fc.property(fc.array(zones, long), (hints) => expectSame(hintList(hints), hints)));
  });

  it('equals those with the same items in the same order, and no others', () => {
    fc.assert(
      fc.property(fc.array(port, long), fc.array(port, long), (a, b) => {
        const same = (x: object, y: object): boolean => JSON.stringify(x) === JSON.stringify(y);
        expect(sameList(packed(a), packed([...a]), same)).toBe(true);
        expect(sameList(packed(a), a, same)).toBe(true);
        expect(sameList(packed(a), packed(b), same)).toBe(same(a, b));
        expect(sameList(packed(a), packed(a.toReversed()), same)).toBe(same(a, a.toReversed()));
      }),
    );
  });

  it('is compared without an object for each item', () => {
    const ports = Array.from({ length: arrayMax + 1 }, (_, i) => {
      return { name: `p${i}`, protocol: 'TCP' as const, port: i, nodePort: 0 };
    });
    expect(sameList(packed(ports), packed([...ports]), never)).toBe(true);
  });
});

describe('Short lists', () => {
  it('stay arrays, and longer ones do not', () => {
    const addresses = Array.from({ length: arrayMax + 1 }, (_, i) => Address.ofIPv4(i));
    const short = addresses.slice(1);
    expect(addressList(short)).toBe(short);
    expect(addressList(addresses)).toBeInstanceOf(Columns);
    const blocks = addresses.map((address) => ({ address, prefixLength: 32 }));
    expect(blockList(blocks.slice(1))).toBeInstanceOf(Array);
    expect(blockList(blocks)).toBeInstanceOf(Columns);
  });

  it('of zones stay arrays however many endpoints share them', () => {
    const lists = Array.from({ length: arrayMax + 1 }, (_, i) => [`zone-${i}`]);
    const shared = Array.from({ length: 100 }, (_, i) => lists[i % arrayMax]!);
    expect(hintList(shared)).toBe(shared);
    expect(hintList(lists)).toBeInstanceOf(Columns);
  });
});

describe('copyOfPart', () => {
  it('copies characters of any kind', () => {
    expect(copyOfPart('aé名b', 1, 3)).toBe('é名');
    expect(copyOfPart('abc', 1, 1)).toBe('');
  });
});
