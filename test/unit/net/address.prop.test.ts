import { BlockList, isIP } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  cidrContains,
  formatAddress,
  formatCIDR,
  parseAddress,
  parseCIDR,
} from '../../../src/net/address.ts';

/** Zero groups often, so that runs of zeroes come in every shape. */
const group = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }));
const groups = fc.array(group, { minLength: 8, maxLength: 8 });

function bytesOf(words: readonly number[]): Uint8Array {
  return Uint8Array.from(words.flatMap((word) => [word >> 8, word & 0xff]));
}

/** In the form of RFC 5952, as the URL standard has it. */
function canonical(text: string): string {
  return new URL(`http://[${text}]/`).hostname.slice(1, -1);
}

function isMapped(words: readonly number[]): boolean {
  return words.slice(0, 5).every((word) => word === 0) && words[5] === 0xffff;
}

/** Every text that means `words`: with any run of zero groups left out, dotted or not. */
function spellings(words: readonly number[]): string[] {
  const hex = words.map((word) => word.toString(16));
  const tail = `${words[6]! >> 8}.${words[6]! & 255}.${words[7]! >> 8}.${words[7]! & 255}`;
  const found: string[] = [];
  for (const parts of [hex, [...hex.slice(0, 6), tail]]) {
    found.push(parts.join(':'));
    for (let start = 0; start < 8; start += 1) {
      for (let end = start + 1; end <= parts.length; end += 1) {
        if (words.slice(start, end).some((word) => word !== 0)) break;
        if (end > 6 && parts !== hex) break;
        found.push(`${parts.slice(0, start).join(':')}::${parts.slice(end).join(':')}`);
      }
    }
  }
  return found;
}

describe('IPv6 text', () => {
  it('is canonical for every pattern of zero groups', () => {
    for (let pattern = 0; pattern < 256; pattern += 1) {
      const words = Array.from({ length: 8 }, (_, i) => ((pattern >> i) & 1 ? 0xa0 + i : 0));
      const text = formatAddress(bytesOf(words));
      expect(isIP(text)).toBe(6);
      expect(text).toBe(canonical(words.map((word) => word.toString(16)).join(':')));
    }
  });

  it('means the same bytes in every spelling, for every pattern of zero groups', () => {
    for (let pattern = 1; pattern < 256; pattern += 1) {
      const words = Array.from({ length: 8 }, (_, i) => ((pattern >> i) & 1 ? 0x1a0 + i : 0));
      for (const text of spellings(words)) {
        expect(parseAddress(text), text).toMatchObject({ family: 'IPv6', bytes: bytesOf(words) });
        expect(canonical(text)).toBe(formatAddress(bytesOf(words)));
        expect(isIP(text)).toBe(6);
      }
    }
  });

  it('is formatted from bytes and parsed to the same bytes', () => {
    fc.assert(
      fc.property(groups, (words) => {
        fc.pre(!isMapped(words));
        const bytes = bytesOf(words);
        const text = formatAddress(bytes);
        expect(parseAddress(text)).toMatchObject({ family: 'IPv6', bytes });
        expect(parseAddress(text.toUpperCase())).toMatchObject({ family: 'IPv6', bytes });
        expect(text).toBe(canonical(text));
      }),
    );
  });

  it('is an address exactly if node:net accepts it', () => {
    const letters = fc.constantFrom(...'0123456789abcdefABCDEFg:::::....%');
    fc.assert(
      fc.property(fc.string({ unit: letters, maxLength: 40 }), (text) => {
        // Dotted quads with leading zeroes are the one thing that we read and node:net does not.
        fc.pre(/[:%]/.test(text));
        expect(parseAddress(text) !== undefined).toBe(isIP(text) === 6 && !text.includes('%'));
      }),
      { numRuns: 2000 },
    );
  });

  it('with one changed character is an address exactly if node:net accepts it', () => {
    const change = fc.record({
      words: groups,
      at: fc.nat(38),
      letter: fc.constantFrom(...'09af:.g'),
    });
    fc.assert(
      fc.property(change, ({ words, at, letter }) => {
        const text = formatAddress(bytesOf(words));
        const changed = text.slice(0, at) + letter + text.slice(at + 1);
        expect(parseAddress(changed) !== undefined).toBe(isIP(changed) !== 0);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('IPv4 text', () => {
  it('is formatted and parsed to the same bytes, with leading zeroes or without', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 4, maxLength: 4 }),
        fc.integer({ min: 1, max: 3 }),
        (bytes, width) => {
          const text = formatAddress(bytes);
          expect(isIP(text)).toBe(4);
          const padded = text
            .split('.')
            .map((octet) => octet.padStart(width, '0'))
            .join('.');
          expect(parseAddress(padded)).toMatchObject({ family: 'IPv4', bytes });
        },
      ),
    );
  });
});

describe('CIDRs', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ minLength: 4, maxLength: 4 }),
    groups.filter((words) => !isMapped(words)).map(bytesOf),
  );

  it('contain the addresses that node:net says they contain', () => {
    fc.assert(
      fc.property(bytes, bytes, fc.nat(128), fc.nat(16), (network, other, prefix, shared) => {
        fc.pre(network.length === other.length);
        const prefixLength = prefix % (network.length * 8 + 1);
        // An address that has bytes in common with the network, or else nothing is ever held.
        const near = other.map((byte, i) => (i < shared ? network[i]! : byte));
        const text = `${formatAddress(network)}/${prefixLength}`;
        const parsed = parseCIDR(text)!;
        const family = network.length === 4 ? 'ipv4' : 'ipv6';
        const list = new BlockList();
        list.addSubnet(formatAddress(network), prefixLength, family);
        const held = list.check(formatAddress(near), family);
        const address = parseAddress(formatAddress(near));
        fc.pre(address?.bytes.length === near.length);
        expect(cidrContains(parsed, address!)).toBe(held);
        expect(parseCIDR(formatCIDR(parsed))).toEqual(parsed);
      }),
    );
  });
});
