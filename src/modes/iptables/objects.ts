/** What this mode keeps: chains of each Service, and rules in chains of all of them. */
import type { CompiledRule } from '../../kernel/xt/compile.ts';
import { printRule } from '../../kernel/xt/print.ts';
import type { Family } from '../../net/address.ts';
import type { ModeFrontend } from '../changes.ts';
import type { Environment } from '../mode.ts';
import type { SharedObject } from '../shared-objects.ts';
import type { RuleCompiler } from './compiler.ts';
import {
  type ChainRule,
  chainId,
  type IptablesConfig,
  jumpRules,
  nodePortRules,
  type TableChain,
} from './layout.ts';
import type { TableName } from './names.ts';
import type { OwnChain } from './translation.ts';

/** A chain of table nat whose rules one Service port alone decides; its `chainId` identifies it. */
export class ServiceChain implements ModeFrontend, Iterable<CompiledRule> {
  readonly id: string;
  readonly chain: TableChain;
  readonly isShared?: undefined;
  readonly #own: OwnChain;
  readonly #compiler: RuleCompiler;

  constructor(own: OwnChain, compiler: RuleCompiler) {
    this.chain = { table: 'nat', chain: own.chain };
    this.id = chainId(this.chain);
    this.#own = own;
    this.#compiler = compiler;
  }

  /** How many rules it has. */
  get length(): number {
    return this.#own.size;
  }

  get bytes(): number {
    return this.length * ruleBytes;
  }

  /** See `RuleCompiler.compile`. */
  [Symbol.iterator](): Iterator<CompiledRule> {
    return this.#compiler.compile(this.#own);
  }

  /** Whether it has the rules of another chain, or of one that was read. */
  hasRulesOf(before: ServiceChain | ObservedChain): boolean {
    const isObserved = 'rules' in before;
    if (this.length !== (isObserved ? before.rules : before).length) return false;
    const rules = isObserved ? before.rules : Array.from(before, copied);
    let i = 0;
    for (const { expressions } of this) {
      if (Buffer.compare(expressions, rules[i]!.expressions) !== 0) return false;
      i += 1;
    }
    return true;
  }
}

function copied({ expressions }: Expressions): Expressions {
  return { expressions: expressions.slice() };
}

export interface ObservedRule {
  readonly handle: number;
  readonly expressions: Uint8Array;
}

/** Such a chain as the kernel holds it. */
export interface ObservedChain {
  readonly chain: TableChain;
  readonly rules: readonly ObservedRule[];
  /** Rules of others jump to it, so that the kernel would not delete it. */
  readonly isReferred: boolean;
}

/** A rule in a chain of all Services: at its head, behind those, or at its end. */
export interface SharedRule extends ChainRule, SharedObject {
  readonly at: 'head' | 'behind' | 'end';
}

export interface IptablesObjects {
  readonly frontend: ServiceChain;
  readonly observed: ObservedChain;
  readonly shared: SharedRule;
}

/** Approximate bytes of a rule in a batch. */
const ruleBytes = 640;

/**
 * The id of a shared rule is its chain and the rule as text, so that equal rules have the same id.
 */
export function sharedRule(family: Family, rule: ChainRule, at: SharedRule['at']): SharedRule {
  const id = `${chainId(rule)} ${printRule(family, rule.rule)}`;
  return { ...rule, id, isShared: true, at, bytes: ruleBytes };
}

/** The chain that the id of a shared rule, or a `chainId`, names. */
export function chainAt(id: string): TableChain {
  const [table, chain] = id.split(' ', 2);
  return { table: table as TableName, chain: chain! };
}

/** The jumps from built-in chains, and the last rules of KUBE-SERVICES. */
export function fixedRules(config: IptablesConfig, environment: Environment): SharedRule[] {
  const { family, part } = config;
  const chain = { table: 'nat', chain: 'KUBE-SERVICES' } as const;
  const jumps = jumpRules(config).map((rule) => ({
    ...sharedRule(family, rule, 'head'),
    isHook: true,
  }));
  if (!part.has(chain.table, chain.chain)) return jumps;
  const last = nodePortRules(config, environment).map((rule) => {
    return sharedRule(family, { ...chain, rule }, 'end');
  });
  return [...jumps, ...last];
}

type Expressions = Pick<ObservedRule, 'expressions'>;

export function sameRules(a: readonly Expressions[], b: readonly Expressions[]): boolean {
  return a.length === b.length && a.every((rule, i) => sameExpressions(rule, b[i]!));
}

export function sameExpressions(a: Expressions, b: Expressions): boolean {
  return Buffer.compare(a.expressions, b.expressions) === 0;
}
