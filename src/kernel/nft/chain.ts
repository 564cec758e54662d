/** Defines chains of nf_tables, writes them, and compares a definition with the kernel's chain. */
import type { ReplyOf, TableName } from '../kernel.ts';
import { type nftOps, unknownIndex } from '../ops.ts';
import type { RecordWriter } from '../records.ts';
import { compileRule, type Statement } from './rule.ts';

export type Rule = readonly Statement[];

/** A chain and the rules that it must hold, in order. */
export interface ChainDefinition {
  readonly name: string;
  readonly base: BaseChain | undefined;
  readonly rules: readonly Rule[];
}

export interface BaseChain {
  readonly type: 'filter' | 'nat';
  readonly hook: number;
  readonly priority: number;
}

/** The policy of every base chain (NF_ACCEPT). */
export const acceptPolicy = 1;

export function baseChain(type: BaseChain['type'], hook: number, priority: number): BaseChain {
  return { type, hook, priority };
}

type ChainReply = ReplyOf<'chain'>;
type Writer = RecordWriter<typeof nftOps>;

/** Adds the chain without its rules, which may refer to chains that come later. */
export function writeChain(writer: Writer, at: TableName, { base, name }: ChainDefinition): void {
  const chain = { family: at.family, table: at.table, chain: name, comment: '' };
  if (base === undefined) writer.write('chainAdd', chain);
  else writer.write('baseChainAdd', { ...chain, ...base, policy: acceptPolicy });
}

export function writeRules(writer: Writer, at: TableName, { name, rules }: ChainDefinition): void {
  const chain = { family: at.family, table: at.table, chain: name, comment: '' };
  for (const rule of rules) writer.write('ruleAdd', { ...chain, expressions: compileRule(rule) });
}

/**
 * Reports whether the chain has the defined hook and no comment. Neither can be changed in place.
 */
export function hasDesiredHook(has: ChainReply, { base }: ChainDefinition): boolean {
  if (has.comment !== '') return false;
  if (base === undefined) return has.hook === unknownIndex;
  return has.type === base.type && has.hook === base.hook && has.priority === base.priority;
}

/** The content of a rule, to compare. A rule with a comment is not ours: we write none. */
export function contentOfRule(rule: ReplyOf<'rule'>): Uint8Array {
  return rule.comment === '' ? rule.expressions : noExpressions;
}

const noExpressions = new Uint8Array(0);

/** Reports whether the chain has the desired policy and rules (their expressions, in order). */
export function hasDesiredRules(
  has: ChainReply,
  rules: readonly Uint8Array[],
  desired: ChainDefinition,
): boolean {
  return (
    (desired.base === undefined || has.policy === acceptPolicy) &&
    rules.length === desired.rules.length &&
    rules.every((rule, i) => Buffer.compare(rule, compileRule(desired.rules[i]!)) === 0)
  );
}
