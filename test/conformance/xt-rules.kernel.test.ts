/** Compares every form of rule that we write with those of iptables-nft, in both families. */
import { expect, test } from 'vitest';
import { makeCounters } from '../../src/kernel/acct.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { nftOps } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import { compileRule, readRule } from '../../src/kernel/xt/compile.ts';
import { printRule } from '../../src/kernel/xt/print.ts';
import {
  type BuiltInChain,
  builtInChains,
  writeBuiltInChain,
  writeTable,
  type XtTable,
} from '../../src/kernel/xt/tables.ts';
import type { Family } from '../../src/net/address.ts';
import { createKernel, type Namespace } from './namespace.ts';
import { dumped, readRule as readExpressions } from './ops.ts';
import { type XtCase, xtCases, xtChains } from './xt-rules.ts';

const tables: readonly XtTable[] = ['filter', 'nat', 'mangle'];
const programs = { IPv4: 'iptables', IPv6: 'ip6tables' } as const;

function restoreText(cases: readonly XtCase[]): string {
  return tables
    .map((table) => {
      const chains = xtChains[table].map((chain) => `:${chain} - [0:0]\n`);
      const rules = cases
        .filter((each) => each.table === table)
        .map(({ chain, words }) => `-A ${chain} ${words}\n`);
      return `*${table}\n${chains.join('')}${rules.join('')}COMMIT\n`;
    })
    .join('');
}

/** A batch as iptables-restore writes it: tables, new chains, needed built-in chains, rules. */
function batchOf(family: Family, cases: readonly XtCase[]): Uint8Array {
  const out = new RecordWriter(nftOps);
  for (const table of tables) {
    const inTable = { family: NFPROTO[family], table };
    writeTable(out, family, table);
    for (const chain of xtChains[table]) out.write('chainAdd', { ...inTable, chain, comment: '' });
    for (const { chain, rule } of cases.filter((each) => each.table === table)) {
      if (Object.hasOwn(builtInChains[table], chain)) {
        writeBuiltInChain(out, family, table, chain as BuiltInChain);
      }
      const compiled = compileRule(family, rule);
      out.write('xtRuleAdd', { ...inTable, chain, position: 0, echo: 0, ...compiled });
    }
  }
  return out.finish();
}

async function ruleRecords(kernel: Kernel) {
  return dumped(kernel, 'rule', { kind: 'rulesDump', family: 0, table: '', chain: '' });
}

/** What a program prints, without the lines that differ on each run. */
async function printed({ run }: Namespace, command: readonly string[]): Promise<string> {
  const [program, ...args] = command as [string, ...string[]];
  return (await run(program, args)).replaceAll(/^# (Generated|Completed) .*$/gm, '');
}

test.each<Family>(['IPv4', 'IPv6'])(
  '%s: rules equal those of iptables-nft: in iptables-save, in nft and byte by byte',
  async (family) => {
    const cases = xtCases(family);
    const theirs = await createKernel();
    const ours = await createKernel();
    const program = programs[family];
    for (const { kernel } of [theirs, ours]) expect(await makeCounters(kernel, family)).toBe(true);
    await theirs.namespace.run(`${program}-nft-restore`, ['--noflush'], restoreText(cases));
    expect(await ours.kernel.apply(batchOf(family, cases))).toEqual({ kind: 'applied' });

    const all = await ruleRecords(ours.kernel);
    expect(all).toHaveLength(cases.length);
    const records = (list: typeof all) =>
      list.map(({ table, chain, expressions }) => ({
        at: `${table} ${chain}`,
        expressions: readExpressions(expressions),
      }));
    expect(records(all)).toEqual(records(await ruleRecords(theirs.kernel)));
    for (const command of [
      [`${program}-nft-save`],
      ['nft', '--debug=netlink', 'list', 'ruleset'],
      ['nft', '-a', 'list', 'chains'],
    ]) {
      const expected = await printed(theirs.namespace, command);
      expect(await printed(ours.namespace, command)).toBe(expected);
    }
  },
);

test.each<Family>(['IPv4', 'IPv6'])(
  '%s: a rule is read as it was written, and printed as by iptables-save',
  async (family) => {
    const cases = xtCases(family);
    const { kernel, namespace } = await createKernel();
    expect(await makeCounters(kernel, family)).toBe(true);
    await kernel.apply(batchOf(family, cases));
    const records = await ruleRecords(kernel);
    const lines = (await namespace.run(`${programs[family]}-nft-save`, []))
      .split('\n')
      .filter((line) => line.startsWith('-A'));
    const ours: string[] = [];
    for (const { table, chain, expressions } of records) {
      const rule = readRule(family, expressions);
      expect(rule, `${table} ${chain}`).toBeDefined();
      ours.push(`-A ${chain} ${printRule(family, rule!)}`.trimEnd());
    }
    expect(ours.sort()).toEqual(lines.sort());
    const written = cases.map(({ rule }) => Buffer.from(compileRule(family, rule).expressions));
    const read = records.map(({ expressions }) => Buffer.from(expressions));
    const byBytes = (list: Buffer[]) => list.map((one) => one.toString('hex')).sort();
    expect(byBytes(read)).toEqual(byBytes(written));
  },
);
