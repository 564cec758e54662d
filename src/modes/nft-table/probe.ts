import type { Kernel } from '../../kernel/kernel.ts';
import { acceptPolicy, type BaseChain } from '../../kernel/nft/chain.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { advice, type MissingFeature, probeTransaction } from '../../kernel/nft/probe.ts';
import { compileRule, type Statement } from '../../kernel/nft/rule.ts';
import { fieldsOfSet } from '../../kernel/nft/sets.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { TableLayout } from './layout.ts';

/** A rule, with what its refusal means. */
export interface ProbedRule extends MissingFeature {
  readonly statements: readonly Statement[];
}

interface ProbedChain {
  readonly name: string;
  readonly base?: BaseChain | undefined;
  readonly rules: readonly ProbedRule[];
}

/**
 * Asks the kernel whether it can do the sets of a layout, and chains: everything is put into one
 * transaction whose last op must fail, so that the kernel judges all of it and keeps nothing.
 * Resolves to what it lacks; empty = nothing. Rejects with KernelError (EPERM) without
 * CAP_NET_ADMIN in the network namespace's user namespace.
 */
export function probeTable(
  kernel: Kernel,
  { family, sets }: TableLayout,
  chains: readonly ProbedChain[],
): Promise<readonly MissingFeature[]> {
  const writer = new RecordWriter(nftOps);
  const features: MissingFeature[] = [];
  const table = `fairlead-probe-${process.pid}`;
  const ofTable = { family: NFPROTO[family], table, comment: '' };
  const nfTables = { feature: 'nf_tables', advice: advice('CONFIG_NF_TABLES', 'nf_tables') };
  features[writer.write('tableAdd', ofTable)] = nfTables;
  for (const definition of Object.values(sets)) {
    features[writer.write('setAdd', fieldsOfSet(family, table, definition))] = {
      feature: `set ${definition.name}`,
      advice: 'needs Linux 5.6 or newer (concatenations with ranges)',
    };
  }
  for (const { name: chain, base, rules } of chains) {
    const fields = { ...ofTable, chain };
    const hook = base && { ...fields, ...base, policy: acceptPolicy };
    features[hook ? writer.write('baseChainAdd', hook) : writer.write('chainAdd', fields)] = {
      feature: `base chain of type ${base?.type}`,
      advice: advice('CONFIG_NFT_NAT and CONFIG_NF_NAT', 'nft_chain_nat'),
    };
    for (const rule of rules) {
      const expressions = compileRule(rule.statements);
      features[writer.write('ruleAdd', { ...fields, expressions })] = rule;
    }
  }
  return probeTransaction(kernel, writer.finish(), features);
}
