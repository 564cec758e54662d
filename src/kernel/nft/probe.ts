/** Asks the kernel what it lacks, with a transaction that is only checked. */

import { checkTransaction } from '../dry-run.ts';
import { isNoAnswer, orElse } from '../errors.ts';
import { refusal } from '../failures.ts';
import type { Kernel, TableName } from '../kernel.ts';
import { nftOps } from '../ops.ts';
import { RecordWriter } from '../records.ts';
import { acceptPolicy, type BaseChain } from './chain.ts';
import { NFPROTO_INET } from './constants.ts';
import { compileRule, type Statement } from './rule.ts';

/** One thing that the kernel lacks for a mode. */
export interface MissingFeature {
  /** What is missing, in the kernel's terms: `expression numgen`, `CAP_NET_ADMIN`. */
  readonly feature: string;
  /** What an operator can do: `load module nft_numgen (CONFIG_NFT_NUMGEN)`. */
  readonly advice: string;
}

/** What to do about a module that is missing. */
export function advice(option: string, module: string): string {
  return `load module ${module} (kernel option ${option})`;
}

/**
 * Checks `ops`. `features` says what the refusal of each means. Throws KernelError: EPERM without
 * CAP_NET_ADMIN in the network namespace's user namespace, and ENOMEM and the like, because a lack
 * of memory does not mean a lack of a feature.
 */
export async function probeTransaction(
  kernel: Kernel,
  ops: Uint8Array,
  features: readonly (MissingFeature | undefined)[],
): Promise<readonly MissingFeature[]> {
  const result = await orElse(checkTransaction(kernel, ops), undefined);
  if (result === undefined) return [noNFTables];
  if (result.kind === 'applied') return [];
  const unanswered = result.failures.find(({ code }) => {
    return code === 'EPERM' || code === 'EACCES' || isNoAnswer(code);
  });
  if (unanswered !== undefined) throw refusal('nft.probe', 'nf_tables', unanswered);
  // Without nf_tables the kernel refuses the message that begins a batch, which is not an op.
  const whole = result.failures.find((one) => one.op === undefined && one.code === 'EOPNOTSUPP');
  if (whole !== undefined) return [noNFTables];
  const missing: MissingFeature[] = [];
  for (const { op, code } of result.failures) {
    const feature = op === undefined ? undefined : features[op];
    if (feature === undefined) continue;
    missing.push({ feature: `${feature.feature} (${code})`, advice: feature.advice });
  }
  return missing;
}

/** What a statement needs: its name, then the option and the module of the kernel. */
export type ProbedStatement = readonly [
  feature: string,
  option: string,
  module: string,
  statement: Statement,
];

/**
 * Asks for a table of both families with these statements in a base chain. `more` adds what comes
 * before them; `needs` says what the next op needs.
 */
export function probeInetTable(
  kernel: Kernel,
  base: BaseChain,
  statements: readonly ProbedStatement[],
  more: (
    writer: RecordWriter<typeof nftOps>,
    table: TableName,
    needs: (feature: string, option: string, module: string) => void,
  ) => void = () => {},
): Promise<readonly MissingFeature[]> {
  const table = { family: NFPROTO_INET, table: `fairlead-probe-${process.pid}` };
  const chain = { ...table, chain: 'c', comment: '' };
  const writer = new RecordWriter(nftOps);
  const features: (MissingFeature | undefined)[] = [];
  const needs = (feature: string, option: string, module: string): void => {
    features[writer.count] = { feature, advice: advice(option, module) };
  };
  needs('tables of family inet', 'CONFIG_NF_TABLES_INET', 'nf_tables');
  writer.write('tableAdd', { ...table, comment: '' });
  needs(`base chain of type ${base.type}`, 'CONFIG_NFT_NAT and CONFIG_NF_NAT', 'nft_chain_nat');
  writer.write('baseChainAdd', { ...chain, ...base, policy: acceptPolicy });
  more(writer, table, needs);
  for (const [feature, option, module, statement] of statements) {
    needs(feature, option, module);
    writer.write('ruleAdd', { ...chain, expressions: compileRule([statement]) });
  }
  return probeTransaction(kernel, writer.finish(), features);
}

const noNFTables: MissingFeature = {
  feature: 'nf_tables',
  advice: advice('CONFIG_NF_TABLES', 'nf_tables'),
};
