import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { printRule } from '../../../../src/kernel/nft/print-rule.ts';
import {
  compileRule,
  daddr,
  dnatTo,
  drop,
  hashOf,
  inSet,
  l4proto,
  saddr,
  sport,
} from '../../../../src/kernel/nft/rule.ts';
import type { Expression } from '../../../../src/kernel/ops.ts';
import { rule } from '../../../conformance/ops.ts';

/** What our own rules say is in the golden files of the modes, and nft reads it. */
describe('a rule of another program', () => {
  it('is printed as far as its expressions are known', () => {
    const register = 1;
    const cmp = (operation: number, ...data: number[]): Expression => {
      return { kind: 'cmp', register, operation, data: Uint8Array.from(data) };
    };
    const ct = (key: number): Expression => ({ kind: 'ctLoad', register, key, direction: 0xff });
    const masked = (...mask: number[]): Expression => {
      const xor = new Uint8Array(mask.length);
      const bits = Uint8Array.from(mask);
      const length = mask.length;
      return { kind: 'bitwise', source: register, destination: register, length, mask: bits, xor };
    };
    const meta = (key: number): Expression => ({ kind: 'metaLoad', register, key });
    const network = (offset: number, length: number): Expression => {
      return { kind: 'payload', register, base: 1, offset, length };
    };
    const constant = (register: number, ...data: number[]): Expression => {
      return { kind: 'immediateData', register, data: Uint8Array.from(data) };
    };
    const nat = { kind: 'nat', type: 1, family: 2, addressMax: 1, portMax: 2, flags: 3 } as const;
    const said = (...list: Expression[]): string => printRule(1, rule(...list));
    expect(said(ct(0), masked(6, 0, 0, 0), cmp(1, 0, 0, 0, 0))).toBe(
      'ct state established,related',
    );
    expect(said(meta(7), cmp(0, 0x65, 0x74, 0x68, 0))).toBe('oifname "eth"');
    expect(said(meta(15), cmp(0, 10), network(24, 16), cmp(0, ...new Uint8Array(16)))).toBe(
      'meta nfproto 10 ip6 daddr ::',
    );
    expect(said(network(8, 1), cmp(4, 9))).toBe('@nh,64,8 > 0x09');
    expect(said(meta(10), cmp(0, 0xe8, 3, 0, 0))).toBe('meta skuid 1000');
    expect(said(meta(10), cmp(5, 0xe8, 3, 0, 0), cmp(3, 0xe9, 3, 0, 0))).toBe(
      'meta skuid >= 1000 meta skuid <= 1001',
    );
    expect(
      said(constant(1, 10, 0, 0, 9), constant(2, 31, 144), { ...nat, addressMin: 1, portMin: 2 }),
    ).toBe('dnat to 10.0.0.9 port 8080');
    expect(said({ kind: 'target', name: 'LOG', revision: 0, info: new Uint8Array(8) })).toBe(
      '[ LOG ]',
    );
  });

  it('is printed with the names of expressions that we never write', () => {
    const foreign: Expression[] = [
      { kind: 'counter' },
      { kind: 'unknown', name: 'quota' },
      { kind: 'immediateVerdict', code: -5, chain: '' },
    ];
    expect(printRule(NFPROTO.IPv4, rule(...foreign))).toBe('counter [ quota ] return');
  });

  it('is printed with what it hashes, and not as a part of the key', () => {
    const hashing = compileRule([
      dnatTo('IPv6', [l4proto, hashOf([saddr('IPv6'), sport], 7)], 'm'),
    ]);
    expect(printRule(NFPROTO.IPv6, hashing)).toBe(
      'dnat ip6 addr . port to meta l4proto . jhash ip6 saddr . th sport mod 7 seed 0x66616972 map @m',
    );
  });

  it('is printed with the sets that an address must not be in', () => {
    const expressions = compileRule([inSet([daddr('IPv4')], 's', '!='), drop]);
    expect(printRule(NFPROTO.IPv4, expressions)).toBe('ip daddr != @s drop');
  });
});
