import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { keepPolicy, nftOps } from '../../../../src/kernel/ops.ts';
import { RecordWriter, readRecords } from '../../../../src/kernel/records.ts';
import { compileRule, readRule } from '../../../../src/kernel/xt/compile.ts';
import { comment } from '../../../../src/kernel/xt/matches/comment.ts';
import { ctState } from '../../../../src/kernel/xt/matches/conntrack.ts';
import { dport } from '../../../../src/kernel/xt/matches/port.ts';
import { recentCheck } from '../../../../src/kernel/xt/matches/recent.ts';
import { oneOf } from '../../../../src/kernel/xt/matches/statistic.ts';
import { printRule } from '../../../../src/kernel/xt/print.ts';
import { writeBuiltInChain, writeTable } from '../../../../src/kernel/xt/tables.ts';
import { jump } from '../../../../src/kernel/xt/targets/verdict.ts';
import type { Family } from '../../../../src/net/address.ts';
import { rule as expressionsOf } from '../../../conformance/ops.ts';
import { xtCases } from '../../../conformance/xt-rules.ts';
import { printXtOps } from '../../../print/iptables.ts';

describe.each<Family>(['IPv4', 'IPv6'])('a rule of iptables, %s', (family) => {
  it.each(xtCases(family))('reads back: $chain $words', ({ rule }) => {
    const { expressions } = compileRule(family, rule);
    const read = readRule(family, expressions);
    expect(compileRule(family, read!)).toEqual(compileRule(family, rule));
    expect(printRule(family, read!)).toBe(printRule(family, rule));
  });
});

describe('a rule of iptables', () => {
  it('is printed in the format of iptables-save', () => {
    const print = (...matches: Parameters<typeof printRule>[1]['matches'] & object) =>
      printRule('IPv4', { protocol: 'UDP', matches, target: jump('KUBE-SVC-A') });
    expect(print(comment('word'))).toBe('-p udp -m comment --comment word -j KUBE-SVC-A');
    expect(print(comment(`a "b" \\ 'c'`))).toBe(
      `-p udp -m comment --comment "a \\"b\\" \\\\ \\'c\\'" -j KUBE-SVC-A`,
    );
    expect(print(dport(53))).toBe('-p udp -m udp --dport 53 -j KUBE-SVC-A');
    expect(print(oneOf(3))).toContain('--probability 0.33333333349 ');
    expect(print(ctState(['DNAT', 'NEW'], '!='))).toContain('-m conntrack ! --ctstate NEW,DNAT ');
    expect(print(recentCheck('list', 60))).toContain('--rcheck --seconds 60 --reap --name list ');
  });

  it('rejects values that its structures cannot contain', () => {
    const compile = (text: string) => compileRule('IPv4', { matches: [comment(text)] });
    expect(() => compile('x'.repeat(255))).not.toThrow();
    expect(() => compile('x'.repeat(256))).toThrow(RangeError);
    expect(() => compile('ü'.repeat(128))).toThrow(RangeError);
    expect(() => compileRule('IPv4', { matches: [dport(53)] })).toThrow('without a protocol');
  });

  it('is not parsed from similar expressions', () => {
    const info = new Uint8Array(8);
    const counter = { kind: 'counter' } as const;
    const other = { kind: 'match', name: 'addrtype', revision: 0, info } as const;
    const short = { kind: 'match', name: 'conntrack', revision: 3, info } as const;
    const unknown = { kind: 'match', name: 'helper', revision: 0, info } as const;
    const target = { kind: 'target', name: 'REJECT', revision: 0, info } as const;
    expect(readRule('IPv4', expressionsOf(counter))).toEqual({});
    for (const expression of [other, short, unknown, target]) {
      expect(readRule('IPv4', expressionsOf(expression, counter)), expression.name).toBeUndefined();
    }
    expect(readRule('IPv4', expressionsOf())).toBeUndefined();
    expect(readRule('IPv4', expressionsOf(counter, counter))).toBeUndefined();
    const native = { kind: 'payload', register: 1, base: 2, offset: 2, length: 2 } as const;
    const compare = { kind: 'cmp', register: 1, operation: 0, data: Uint8Array.of(0, 80) } as const;
    expect(readRule('IPv4', expressionsOf(native, compare, counter))).toBeUndefined();
  });
});

describe('ops on the tables of iptables', () => {
  const inTable = { family: NFPROTO.IPv6, table: 'nat' } as const;

  function ops(): RecordWriter<typeof nftOps> {
    const out = new RecordWriter(nftOps);
    const chain = 'KUBE-MARK-MASQ';
    const rule = compileRule('IPv6', { matches: [comment('why')], target: jump('B') });
    const fields = { ...inTable, chain, echo: 1, ...rule };
    writeTable(out, 'IPv6', 'nat');
    writeBuiltInChain(out, 'IPv6', 'nat', 'POSTROUTING');
    out.write('chainAdd', { ...inTable, chain, comment: '' });
    out.write('chainFlush', { ...inTable, chain });
    out.write('xtRuleAdd', { ...fields, position: 0, ...compileRule('IPv6', {}) });
    out.write('xtRuleAdd', { ...fields, position: 4 });
    out.write('xtRuleInsert', { ...fields, position: 0 });
    out.write('xtRuleInsert', { ...fields, position: 5 });
    out.write('ruleDelete', { ...inTable, chain, handle: 7, echo: 0 });
    out.write('chainDelete', { ...inTable, chain });
    out.write('tableDelete', inTable);
    return out;
  }

  it('are printed as commands', () => {
    expect(printXtOps(ops().finish())).toBe(`\
# make ip6tables -t nat
# make ip6tables -t nat POSTROUTING
ip6tables -t nat -N KUBE-MARK-MASQ
ip6tables -t nat -F KUBE-MARK-MASQ
ip6tables -t nat -A KUBE-MARK-MASQ
ip6tables -t nat -A KUBE-MARK-MASQ -m comment --comment why -j B # behind handle 4
ip6tables -t nat -I KUBE-MARK-MASQ -m comment --comment why -j B
ip6tables -t nat -I KUBE-MARK-MASQ -m comment --comment why -j B # before handle 5
ip6tables -t nat -D KUBE-MARK-MASQ # handle 7
ip6tables -t nat -X KUBE-MARK-MASQ
# delete ip6tables -t nat
`);
  });

  it('keep the policy of an existing built-in chain', () => {
    const chains = [...readRecords(nftOps, ops().finish())].filter(
      ({ kind }) => kind === 'baseChainAdd',
    );
    expect(chains).toMatchObject([{ chain: 'POSTROUTING', type: 'nat', policy: keepPolicy }]);
  });

  it('are rejected for sets', () => {
    const out = new RecordWriter(nftOps);
    out.write('setFlush', { ...inTable, set: 's' });
    expect(() => printXtOps(out.finish())).toThrow(RangeError);
  });
});
