/** Probes which features the kernel lacks for the fast path. */
import type { Kernel } from '../kernel/kernel.ts';
import { NF_INET } from '../kernel/nft/constants.ts';
import { advice, type MissingFeature, probeTransaction } from '../kernel/nft/probe.ts';
import { compileRule, flowAdd, packetsAbove, withoutIPsec } from '../kernel/nft/rule.ts';
import { nftOps } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import { flowtable, inet } from './layout.ts';

/** Asks by a transaction that makes everything and is then refused. */
export async function probe(kernel: Kernel): Promise<readonly MissingFeature[]> {
  const table = { family: inet, table: `fairlead-probe-${process.pid}` };
  const chain = { ...table, chain: 'c' };
  const comment = '';
  const writer = new RecordWriter(nftOps);
  const features: (MissingFeature | undefined)[] = [];
  const needs = (feature: string, what: string): void => {
    features[writer.count] = { feature, advice: what };
  };
  const { flags, flowtable: name, priority } = flowtable;
  const [type, hook, policy] = ['filter', NF_INET.FORWARD, 1];
  needs('tables of family inet', advice('CONFIG_NF_TABLES_INET', 'nf_tables'));
  writer.write('tableAdd', { ...table, comment });
  writer.write('baseChainAdd', { ...chain, type, hook, priority, policy, comment });
  needs('flowtables', advice('CONFIG_NF_FLOW_TABLE_INET', 'nf_flow_table_inet'));
  writer.write('flowtableAdd', { ...table, flowtable: name, priority, flags, devices: '' });
  const rules = [
    ['expression flow_offload', 'CONFIG_NFT_FLOW_OFFLOAD', 'nft_flow_offload', flowAdd(name)],
    ['expression ct', 'CONFIG_NFT_CT', 'nft_ct', packetsAbove(1)],
    ['routes that lead through IPsec', 'CONFIG_NF_TABLES', 'nf_tables', withoutIPsec],
  ] as const;
  for (const [feature, option, module, statement] of rules) {
    needs(feature, advice(option, module));
    writer.write('ruleAdd', { ...chain, expressions: compileRule([statement]), comment });
  }
  writer.write('chainDelete', { ...table, chain: 'never-made' });
  return probeTransaction(kernel, writer.finish(), features);
}
