/** The tables of iptables of a fake kernel, as iptables-save prints them (without counters). */
import { NFPROTO } from '../../../../src/kernel/nft/constants.ts';
import { readRule } from '../../../../src/kernel/xt/compile.ts';
import { printRule } from '../../../../src/kernel/xt/print.ts';
import { chainId, sharedChains, tableNames } from '../../../../src/modes/iptables/layout.ts';
import type { TableName } from '../../../../src/modes/iptables/names.ts';
import type { Family } from '../../../../src/net/address.ts';
import type { FakeKernel } from '../../../fake/kernel.ts';
import type { Chain, Table } from '../../../fake/nft-state.ts';

export function save(kernel: FakeKernel, family: Family): string {
  return tableNames.map((table) => tableText(kernel, family, table, (lines) => lines)).join('');
}

const unordered = new Set(sharedChains.map(chainId));

const behind = /this must be the last rule|--dport \d+:/;

/**
 * The same for rulesets that packets take for the same: where the order of rules does not matter
 * they are sorted, but those behind the others stay there: of ranges of ports, and the way to node
 * ports.
 */
export function meaning(kernel: FakeKernel, family: Family): string {
  return tableNames
    .map((table) =>
      tableText(kernel, family, table, (lines, { name, base }) => {
        if (base === undefined && !unordered.has(`${table} ${name}`)) return lines;
        const runs: string[][] = [];
        let wasBehind: boolean | undefined;
        for (const line of lines) {
          if (behind.test(line) !== wasBehind) runs.push([]);
          wasBehind = behind.test(line);
          runs.at(-1)!.push(line);
        }
        return runs.flatMap((run) => run.sort());
      }),
    )
    .join('');
}

function tableText(
  kernel: FakeKernel,
  family: Family,
  name: TableName,
  order: (lines: string[], chain: Chain) => string[],
): string {
  const table = kernel.table(NFPROTO[family], name);
  if (table === undefined) return '';
  const chains = [...table.chains.values()].sort((a, b) => rank(a) - rank(b) || byName(a, b));
  const heads = chains.map(({ name: chain, base }) => `:${chain} ${base ? 'ACCEPT' : '-'}`);
  const rules = chains.flatMap((chain) => order(linesOf(table, chain, family), chain));
  return [`*${name}`, ...heads, ...rules, 'COMMIT', ''].join('\n');
}

function linesOf(_: Table, { name, rules }: Chain, family: Family): string[] {
  return rules.map(({ expressions }) => {
    const rule = readRule(family, expressions);
    if (rule === undefined) return `-A ${name} (a rule of another form)`;
    const words = printRule(family, rule);
    return `-A ${name}${words === '' ? '' : ` ${words}`}`;
  });
}

const rank = ({ base }: Chain): number => (base === undefined ? 1 : 0);
const byName = (a: Chain, b: Chain): number => (a.name < b.name ? -1 : 1);
