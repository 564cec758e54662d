/**
 * Whether other programs on this node use iptables-legacy: packets meet its rules and those of
 * nf_tables. That is reported, and left to the operator.
 */
import type { KernelReader } from '../kernel/kernel.ts';
import { type LegacyTable, legacyTables } from '../kernel/xt/legacy.ts';
import { families } from '../net/address.ts';

/** The program that shows the tables of a family. */
export const legacyPrograms = { IPv4: 'iptables-legacy', IPv6: 'ip6tables-legacy' } as const;

/**
 * The tables that hold anything: `iptables-legacy nat: 12 rules, 4 chains`. Rejects with
 * KernelError.
 */
export async function findLegacyTables(kernel: KernelReader): Promise<string[]> {
  const found: string[] = [];
  for (const family of families) {
    for (const table of await legacyTables(kernel, family)) {
      const chains = countMade(table);
      if (table.rules + chains === 0) continue;
      const holds = `${table.rules} rules, ${chains} chains`;
      found.push(`${legacyPrograms[family]} ${table.table}: ${holds}`);
    }
  }
  return found;
}

function countMade({ chains }: LegacyTable): number {
  return [...chains.values()].filter(({ isBuiltIn }) => !isBuiltIn).length;
}
