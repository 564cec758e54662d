/**
 * Where nf_tables does not reach: iptables-legacy, where kube-proxy may have left rules, and which
 * other agents of this node may use. It is told; what becomes of it is up to the operator.
 */
import type { Kernel } from '../kernel/kernel.ts';
import { type LegacyTable, legacyTables } from '../kernel/xt/legacy.ts';

const programs = { IPv4: 'iptables-legacy', IPv6: 'ip6tables-legacy' } as const;

/**
 * The tables that hold anything: `iptables-legacy nat: 12 rules, 4 chains of which 3 are KUBE-…`.
 * Rejects with KernelError.
 */
export async function findLegacyTables(kernel: Kernel): Promise<string[]> {
  const found: string[] = [];
  for (const family of ['IPv4', 'IPv6'] as const) {
    for (const table of await legacyTables(kernel, family)) {
      const { rules, chains } = table;
      if (rules + chains.length > 0) found.push(`${programs[family]} ${describe(table)}`);
    }
  }
  return found;
}

function describe({ table, rules, chains }: LegacyTable): string {
  const kubernetes = chains.filter((chain) => chain.startsWith('KUBE-')).length;
  const whose = kubernetes === 0 ? '' : ` of which ${kubernetes} are KUBE-…`;
  return `${table}: ${rules} rules, ${chains.length} chains${whose}`;
}
