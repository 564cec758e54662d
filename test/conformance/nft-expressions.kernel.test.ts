/**
 * Every expression: a rule that we write is equal in the kernel to the same rule written by nft(8),
 * and we read it as we wrote it.
 */
import { expect, test } from 'vitest';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { type Expression, noRegister } from '../../src/kernel/ops.ts';
import { createKernel } from './namespace.ts';
import { batch, bytes, dumped, type Part, readRule, rule, u16Be, u32 } from './ops.ts';
import { casesOf, compareTwins } from './twins.ts';

const accept: Expression = { kind: 'immediateVerdict', code: 1, chain: '' };
const load4 = (offset: number): Expression => {
  return { kind: 'payload', register: 1, base: 1, offset, length: 4 };
};
const not = (cmp: Expression): Expression => ({ ...cmp, operation: 1 }) as Expression;
const equal = (...data: readonly Part[]): Expression => {
  return { kind: 'cmp', register: 1, operation: 0, data: bytes(...data) };
};
const meta = (key: number): Expression => ({ kind: 'metaLoad', register: 1, key });
const setMarkTo = { kind: 'metaSet', register: 1, key: 3 } as const;
const ct = (key: number, direction: number): Expression => {
  return { kind: 'ctLoad', register: 1, key, direction };
};
const lookup = (name: string, destination: number, flags = 0): Expression => {
  return { kind: 'lookup', set: name, source: 1, destination, flags };
};
const none = noRegister;
const nat = (fields: Partial<Extract<Expression, { kind: 'nat' }>>): Expression => {
  const ports = { portMin: none, portMax: none };
  const address = { addressMin: 1, addressMax: 1 };
  return { kind: 'nat', type: 1, family: 2, ...address, ...ports, flags: 1, ...fields };
};

test.each(
  casesOf((list: readonly Expression[]) => rule(...list), {
    filter: {
      accept: [accept],
      drop: [{ ...accept, code: 0 }],
      return: [{ ...accept, code: -5 }],
      'jump target': [{ ...accept, code: -3, chain: 'target' }],
      'goto target': [{ ...accept, code: -4, chain: 'target' }],
      'counter packets 0 bytes 0': [{ kind: 'counter' }],
      'ip saddr 10.0.0.1 accept': [load4(12), equal('0a000001'), accept],
      'ip saddr != 10.0.0.1': [load4(12), not(equal('0a000001'))],
      'udp dport 53': [
        meta(16),
        equal(17),
        { kind: 'payload', register: 1, base: 2, offset: 2, length: 2 },
        equal(u16Be(53)),
      ],
      'meta mark & 0xff == 0x7': [
        meta(3),
        { kind: 'bitwise', source: 1, destination: 1, length: 4, mask: u32(0xff), xor: u32(0) },
        equal(u32(7)),
      ],
      'ip saddr @s': [load4(12), lookup('s', none)],
      'ip saddr != @s': [load4(12), lookup('s', none, 1)],
      'iifname != @i return': [meta(6), lookup('i', none, 1), { ...accept, code: -5 }],
      'ct original ip daddr 10.0.0.1': [ct(20, 0), equal('0a000001')],
      'ct reply ip saddr 10.0.0.1': [ct(19, 1), equal('0a000001')],
      'meta mark set numgen inc mod 4 offset 10': [
        { kind: 'numgen', register: 1, type: 0, modulus: 4, offset: 10 },
        setMarkTo,
      ],
      'fib saddr . iif oif 0': [{ kind: 'fib', register: 1, result: 1, flags: 9 }, equal(u32(0))],
      'add @d { ip saddr }': [
        load4(12),
        { kind: 'dynset', set: 'd', operation: 0, key: 1, data: none, timeoutMs: 0, over: none },
      ],
      'add @connections { ip saddr ct count over 7 }': [
        load4(12),
        {
          ...{ kind: 'dynset', set: 'connections', operation: 0, key: 1, data: none },
          ...{ timeoutMs: 0, over: 7 },
        },
      ],
      'update @d { ip saddr timeout 30s }': [
        load4(12),
        {
          ...{ kind: 'dynset', set: 'd', operation: 1, key: 1, data: none },
          ...{ timeoutMs: 30_000, over: none },
        },
      ],
      reject: [{ kind: 'reject', type: 0, icmpCode: 3 }],
      'reject with icmp type host-unreachable': [{ kind: 'reject', type: 0, icmpCode: 1 }],
      'meta l4proto tcp reject with tcp reset': [
        meta(16),
        equal(6),
        { kind: 'reject', type: 1, icmpCode: 0 },
      ],
    },
    nat: {
      'dnat to ip saddr map @m': [load4(12), lookup('m', 1), nat({})],
      'ip protocol tcp dnat to 10.0.0.2:80': [
        { kind: 'payload', register: 1, base: 1, offset: 9, length: 1 },
        equal(6),
        { kind: 'immediateData', register: 1, data: bytes('0a000002') },
        { kind: 'immediateData', register: 2, data: bytes(u16Be(80)) },
        nat({ portMin: 2, portMax: 2, flags: 3 }),
      ],
    },
    snat: {
      'snat to ip saddr map @m': [load4(12), lookup('m', 1), nat({ type: 0 })],
      'snat to ip saddr map @m fully-random': [
        load4(12),
        lookup('m', 1),
        nat({ type: 0, flags: 17 }),
      ],
      masquerade: [{ kind: 'masquerade', flags: 0 }],
      'masquerade random': [{ kind: 'masquerade', flags: 4 }],
    },
  }),
)('%s chain, family ip: `%s` is the same from nft and from us', async (...each) => {
  await compareTwins('ip', each);
});

test('an expression without a record is `unknown`, and does not hide others', async () => {
  const { kernel, namespace } = await createKernel();
  const ruleset = 'table ip t {\n chain c {\n ct mark set ct mark\n accept\n }\n }';
  await namespace.run('nft', ['-f', '-'], ruleset);
  const inTable = { family: NFPROTO.IPv4, table: 't' };
  const [theirs] = await dumped(kernel, 'rule', { kind: 'rulesDump', ...inTable, chain: 'c' });
  expect(readRule(theirs!.expressions)).toEqual([ct(3, 0xff), { kind: 'unknown', name: 'ct' }]);
});

test('a rule with an unknown expression is rejected with its index', async () => {
  const { kernel } = await createKernel();
  const table = { family: NFPROTO.IPv4, table: 't' };
  const expressions = rule({ kind: 'unknown', name: 'ct' });
  const ops = batch(
    { kind: 'tableAdd', ...table, comment: '' },
    { kind: 'ruleAdd', ...table, chain: 'c', expressions, comment: '' },
  );
  const message = 'expression.code is not one of the schema';
  const failure = { op: 1, entry: undefined, code: 'EINVAL', message };
  expect(await kernel.apply(ops)).toEqual({ kind: 'failed', failures: [failure], partly: false });
});
