/** Probes which features the kernel lacks for the fast path. */
import type { Kernel } from '../kernel/kernel.ts';
import { baseChain } from '../kernel/nft/chain.ts';
import { NF_INET } from '../kernel/nft/constants.ts';
import { type MissingFeature, type ProbedStatement, probeInetTable } from '../kernel/nft/probe.ts';
import { flowAdd, packetsAbove, withoutIPsec } from '../kernel/nft/rule.ts';
import { flowtable } from './layout.ts';

const { flags, flowtable: name, priority } = flowtable;

const statements: readonly ProbedStatement[] = [
  ['expression flow_offload', 'CONFIG_NFT_FLOW_OFFLOAD', 'nft_flow_offload', flowAdd(name)],
  ['expression ct', 'CONFIG_NFT_CT', 'nft_ct', packetsAbove(1)],
  ['routes that lead through IPsec', 'CONFIG_NF_TABLES', 'nf_tables', withoutIPsec],
];

export function probe(kernel: Kernel): Promise<readonly MissingFeature[]> {
  const base = baseChain('filter', NF_INET.FORWARD, priority);
  return probeInetTable(kernel, base, statements, (writer, table, needs) => {
    needs('flowtables', 'CONFIG_NF_FLOW_TABLE_INET', 'nf_flow_table_inet');
    writer.write('flowtableAdd', { ...table, flowtable: name, priority, flags, devices: '' });
  });
}
