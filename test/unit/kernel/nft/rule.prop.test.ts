import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NF_INET, NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { compileRule, drop, matchCIDR } from '../../../../src/kernel/nft/rule.ts';
import {
  Address,
  addressBytes,
  cidrContains,
  type Family,
  formatAddress,
  formatCIDR,
  parseCIDR,
} from '../../../../src/net/address.ts';
import { batch } from '../../../conformance/ops.ts';
import { FakeKernel } from '../../../fake/kernel.ts';

/** An address block, and addresses that are in it or a bit off. */
const cases = fc.constantFrom<Family>('IPv4', 'IPv6').chain((family) => {
  const length = addressBytes[family];
  return fc.record({
    family: fc.constant(family),
    base: fc.uint8Array({ minLength: length, maxLength: length }),
    prefixLength: fc.nat(length * 8),
    flipped: fc.array(fc.nat(length * 8 - 1), { maxLength: 3 }),
  });
});

function flip(bytes: Uint8Array, bits: readonly number[]): Uint8Array {
  const flipped = bytes.slice();
  for (const bit of bits) flipped[bit >> 3]! ^= 0x80 >> (bit & 7);
  return flipped;
}

describe('matchCIDR', () => {
  it.for(['==', '!='] as const)(
    'with %s matches exactly the addresses in the block',
    (operator) => {
      fc.assert(
        fc.property(cases, ({ family, base, prefixLength, flipped }) => {
          const cidr = parseCIDR(`${formatAddress(base)}/${prefixLength}`);
          // Some IPv6 addresses count as IPv4.
          fc.pre(cidr !== undefined && cidr.address.family === family);
          const bytes = flip(cidr!.address.bytes, flipped);
          const at = { family: NFPROTO[family], table: 't' };
          const hook = { type: 'filter', hook: NF_INET.LOCAL_OUT, priority: 0, policy: 1 };
          const expressions = compileRule([matchCIDR('daddr', operator, cidr!), drop]);
          const kernel = new FakeKernel();
          kernel.foreign(
            batch(
              { kind: 'tableAdd', ...at, comment: '' },
              { kind: 'baseChainAdd', ...at, chain: 'c', ...hook, comment: '' },
              { kind: 'ruleAdd', ...at, chain: 'c', expressions, comment: '' },
            ),
          );
          const { verdict } = kernel.evaluate({
            saddr: formatAddress(base),
            daddr: formatAddress(bytes),
            protocol: 'TCP',
            dport: 80,
            iif: undefined,
            nodeAddresses: [],
            random: 0,
          });
          const matches = cidrContains(cidr!, Address.from(bytes)) === (operator === '==');
          expect(verdict, formatCIDR(cidr!)).toBe(matches ? 'drop' : 'accept');
        }),
        { numRuns: 300 },
      );
    },
  );
});
