/** Chains of nf_tables: how one is defined, and how it is compared with what the kernel has. */
import { type Reply, unknownIndex } from '../ops.ts';
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

type ChainReply = Extract<Reply, { kind: 'chain' }>;

/** Whether the chain's hook is right and it has no comment, which can't be changed in place. */
export function isHookedAsWanted(has: ChainReply, { base }: ChainDefinition): boolean {
  if (has.comment !== '') return false;
  if (base === undefined) return has.hook === unknownIndex;
  return has.type === base.type && has.hook === base.hook && has.priority === base.priority;
}

/** The content of a rule, to compare. A rule with a comment is not ours: we write none. */
export function contentOfRule(rule: Extract<Reply, { kind: 'rule' }>): Uint8Array {
  return rule.comment === '' ? rule.expressions : noExpressions;
}

const noExpressions = new Uint8Array(0);

/** Whether the chain has the policy and the rules (their expressions, in order) that are wanted. */
export function isFilledAsWanted(
  has: ChainReply,
  rules: readonly Uint8Array[],
  wanted: ChainDefinition,
): boolean {
  return (
    (wanted.base === undefined || has.policy === acceptPolicy) &&
    rules.length === wanted.rules.length &&
    rules.every((rule, i) => Buffer.compare(rule, compileRule(wanted.rules[i]!)) === 0)
  );
}
