import { describe, expect, it } from 'vitest';
import {
  concatType,
  NFPROTO,
  NFT_DATA_VERDICT,
  NFT_SET,
  type NFTypeName,
} from '../../../src/kernel/nft/constants.ts';
import { printRule } from '../../../src/kernel/nft/print-rule.ts';
import {
  compileRule,
  daddr,
  dnatTo,
  dport,
  drop,
  goto,
  inSet,
  jump,
  l4proto,
  masquerade,
  matchCIDR,
  matchInterface,
  matchInterfacePrefix,
  matchLocalAddress,
  matchMark,
  matchProtocol,
  originalDaddr,
  originalDport,
  random,
  reject,
  type Statement,
  saddr,
  setMark,
  stateNew,
  statusDNAT,
  toggleMark,
  updateMap,
  vmap,
} from '../../../src/kernel/nft/rule.ts';
import { ElementShape, type Expression, type NftOp } from '../../../src/kernel/ops.ts';
import { batch, bytes, rule, u32, verdict } from '../../conformance/ops.ts';
import { concatParts, printOps } from '../../print/nft.ts';
import { cidr } from '../state/build.ts';

const v4 = 'IPv4';
const v6 = 'IPv6';

describe('the text of a rule', () => {
  const cases: [string, readonly Statement[]][] = [
    ['ip saddr 10.0.0.0/8', [matchCIDR('saddr', '==', cidr('10.0.0.0/8'))]],
    ['ip daddr != 10.16.0.0/12', [matchCIDR('daddr', '!=', cidr('10.16.0.0/12'))]],
    ['ip saddr 10.0.0.1', [matchCIDR('saddr', '==', cidr('10.0.0.1/32'))]],
    ['ip saddr 0.0.0.0/0', [matchCIDR('saddr', '==', cidr('0.0.0.0/0'))]],
    ['meta l4proto udp', [matchProtocol('UDP')]],
    ['iifname "br0"', [matchInterface('==', 'br0')]],
    ['iifname != "veth*"', [matchInterfacePrefix('!=', 'veth')]],
    ['fib saddr type local', [matchLocalAddress('saddr')]],
    ['ct state new ct status dnat jump learning', [stateNew, statusDNAT, jump('learning')]],
    [
      'meta mark & 0x00004000 != 0 meta mark set meta mark ^ 0x00004000 masquerade fully-random',
      [matchMark(0x4000), toggleMark(0x4000), masquerade],
    ],
    ['meta mark set meta mark | 0x80000000', [setMark(0x80000000)]],
    ['ip daddr != @s drop', [inSet([daddr(v4)], 's', '!='), drop]],
    ['ip daddr . meta l4proto . th dport vmap @m', [vmap([daddr(v4), l4proto, dport], 'm')]],
    ['reject', [reject(v4)]],
    ['goto pick-3', [goto('pick-3')]],
    [
      'dnat ip addr . port to meta l4proto . numgen random mod 7 map @m',
      [dnatTo(v4, [l4proto, random(7)], 'm')],
    ],
    [
      'update @m { ip saddr . ct original ip daddr . ct original proto-dst timeout 60s : ip daddr }',
      [updateMap('m', [saddr(v4), originalDaddr(v4), originalDport], [daddr(v4)], 60)],
    ],
  ];
  it.for(cases)('%s', ([words, statements]) => {
    expect(printRule(NFPROTO.IPv4, compileRule(statements))).toBe(words);
  });

  it('has ip6 for IPv6, and loads addresses of 16 bytes', () => {
    const statements = [
      matchCIDR('saddr', '!=', cidr('fd00::/8')),
      matchCIDR('daddr', '==', cidr('fd00::/9')),
      dnatTo(v6, [saddr(v6), daddr(v6), dport], 'm'),
    ];
    expect(printRule(NFPROTO.IPv6, compileRule(statements))).toBe(
      'ip6 saddr != fd00::/8 ip6 daddr fd00::/9 ' +
        'dnat ip6 addr . port to ip6 saddr . ip6 daddr . th dport map @m',
    );
  });

  it('of another program shows what is known of it', () => {
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
    expect(
      said(constant(1, 10, 0, 0, 9), constant(2, 31, 144), { ...nat, addressMin: 1, portMin: 2 }),
    ).toBe('dnat to 10.0.0.9 port 8080');
    expect(said({ kind: 'target', name: 'LOG', revision: 0, info: new Uint8Array(8) })).toBe(
      '[ LOG ]',
    );
  });

  it('shows unused expressions as they are', () => {
    const foreign: Expression[] = [
      { kind: 'counter' },
      { kind: 'unknown', name: 'quota' },
      { kind: 'immediateVerdict', code: -5, chain: '' },
    ];
    expect(printRule(NFPROTO.IPv4, rule(...foreign))).toBe('[ counter ] [ quota ] return');
  });
});

const t = { family: NFPROTO.IPv4, table: 't' };
const plain = { flags: 0, timeoutMs: 0, size: 0, counter: 0, comment: '' };
const types = {
  addresses: { key: ['ipv4_addr'], data: undefined },
  verdicts: { key: ['inet_proto', 'inet_service'], data: 'verdict' },
  endpoints: { key: ['ipv4_addr', 'mark'], data: ['ipv4_addr', 'inet_service'] },
  allowed: { key: ['inet_service', 'ipv4_addr'], data: undefined },
} as const;

function print(...ops: NftOp[]): string {
  const typesOf = (_: number, set: string) => types[set as keyof typeof types];
  return printOps(batch(...ops), typesOf);
}

function elements(set: keyof typeof types, shape: number, count: number, entries: Uint8Array) {
  const dataLength = set === 'endpoints' ? 8 : 0;
  const keyLength = set === 'addresses' ? 4 : 8;
  const fields = { shape, keyLength, dataLength, count, entries };
  return { kind: 'elementsAdd', ...t, set, ...fields } as const satisfies NftOp;
}

describe('the text of an op', () => {
  const expressions = compileRule([drop]);
  const cases: [string, NftOp][] = [
    ['add table ip t', { kind: 'tableAdd', ...t, comment: '' }],
    [
      'add table ip6 t { comment "hi" ; }',
      { kind: 'tableAdd', family: 10, table: 't', comment: 'hi' },
    ],
    ['delete table ip t', { kind: 'tableDelete', ...t }],
    ['add chain ip t c', { kind: 'chainAdd', ...t, chain: 'c', comment: '' }],
    [
      'add chain ip t c { type nat hook output priority -100 ; policy drop ; }',
      {
        kind: 'baseChainAdd',
        ...t,
        chain: 'c',
        type: 'nat',
        hook: 3,
        priority: -100,
        policy: 0,
        comment: '',
      },
    ],
    ['delete chain ip t c', { kind: 'chainDelete', ...t, chain: 'c' }],
    ['flush chain ip t c', { kind: 'chainFlush', ...t, chain: 'c' }],
    ['add rule ip t c drop', { kind: 'ruleAdd', ...t, chain: 'c', expressions, comment: '' }],
    ['delete rule ip t c handle 5', { kind: 'ruleDelete', echo: 0, ...t, chain: 'c', handle: 5 }],
    [
      'add set ip t addresses { type ipv4_addr ; size 9 ; flags interval ; comment "hi" ; }',
      {
        kind: 'setAdd',
        ...t,
        set: 'addresses',
        ...plain,
        keyType: 7,
        keyLength: 4,
        dataType: 0,
        dataLength: 0,
        flags: NFT_SET.INTERVAL,
        size: 9,
        comment: 'hi',
      },
    ],
    [
      'add map ip t verdicts { type inet_proto . inet_service : verdict ; flags dynamic,timeout ; }',
      {
        kind: 'setAdd',
        ...t,
        set: 'verdicts',
        ...plain,
        keyType: 780,
        keyLength: 8,
        dataType: NFT_DATA_VERDICT,
        dataLength: 0,
        flags: NFT_SET.MAP | NFT_SET.EVAL | NFT_SET.TIMEOUT,
      },
    ],
    [
      'add map ip t endpoints ' +
        '{ typeof ip daddr . numgen random mod 1 : ip daddr . th dport ; }',
      {
        kind: 'setAdd',
        ...t,
        set: 'endpoints',
        ...plain,
        keyType: 467,
        keyLength: 8,
        dataType: 461,
        dataLength: 8,
        flags: NFT_SET.MAP,
      },
    ],
    ['delete set ip t addresses', { kind: 'setDelete', ...t, set: 'addresses' }],
    ['flush set ip t addresses', { kind: 'setFlush', ...t, set: 'addresses' }],
  ];
  it.for(cases)('%s', ([words, op]) => {
    expect(print(op)).toBe(`${words}\n`);
  });
});

describe('the text of elements', () => {
  it('shows keys and the values that they map to', () => {
    const entries = bytes(
      6,
      '000000',
      '00500000',
      verdict(-4, 'c'),
      17,
      '000000',
      '00350000',
      verdict(0),
    );
    expect(print(elements('verdicts', ElementShape.verdict, 2, entries))).toBe(
      'add element ip t verdicts { tcp . 80 : goto c , udp . 53 : drop }\n',
    );
    const endpoint = bytes('0a000001', u32(300), '0a000002', '1f900000');
    expect(print(elements('endpoints', ElementShape.data, 1, endpoint))).toBe(
      'add element ip t endpoints { 10.0.0.1 . 300 : 10.0.0.2 . 8080 }\n',
    );
  });

  it('shows ranges, from two edges, or up to the last address', () => {
    const entries = bytes('0a000000', u32(0), '0a000100', u32(1), 'f0000000', u32(0));
    expect(print(elements('addresses', ElementShape.flags, 3, entries))).toBe(
      'add element ip t addresses { 10.0.0.0-10.0.0.255 , 240.0.0.0-255.255.255.255 }\n',
    );
  });
});

describe('the number of a concatenated type', () => {
  it.for<[readonly NFTypeName[]]>([
    [['ipv4_addr']],
    [['ipv6_addr', 'ipv6_addr', 'inet_proto', 'inet_service']],
    [['inet_proto', 'inet_service', 'mark']],
  ])('says its parts: %s', ([parts]) => {
    expect(concatParts(concatType(parts))).toEqual(parts);
  });

  it('is rejected if a part has no name here', () => {
    expect(() => concatParts(4)).toThrow(RangeError);
  });
});
