/** What this mode keeps: chains of each Service, and rules in chains of all of them. */
import type { CompiledRule } from '../../kernel/xt/compile.ts';
import { printRule } from '../../kernel/xt/print.ts';
import type { XtRule } from '../../kernel/xt/rule.ts';
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
export class ServiceChain implements ModeFrontend {
  readonly id: string;
  readonly chain: TableChain;
  /** How many rules it has. */
  readonly size: number;
  readonly isShared?: undefined;
  readonly #make: () => XtRule[];
  readonly #compiler: RuleCompiler;
  #rules: readonly CompiledRule[] | undefined;

  constructor({ chain, size, rules }: OwnChain, compiler: RuleCompiler) {
    this.chain = { table: 'nat', chain };
    this.id = chainId(this.chain);
    this.size = size;
    this.#make = rules;
    this.#compiler = compiler;
  }

  get bytes(): number {
    return this.size * ruleBytes;
  }

  /** Compiled when first asked for: a caller that only counts needs no rules. */
  get rules(): readonly CompiledRule[] {
    this.#rules ??= this.#make().map((rule) => this.#compiler.compile(rule));
    return this.#rules;
  }

  /** Whether it has the rules of another chain, or of one that was read. */
  hasRulesOf({ rules }: { readonly rules: readonly Expressions[] }): boolean {
    if (rules.length !== this.size) return false;
    const made = this.#make();
    return made.every((rule, i) => this.#compiler.isSame(rule, rules[i]!.expressions));
  }
}

export interface ObservedRule {
  readonly handle: number;
  readonly expressions: Uint8Array;
}

/** Such a chain as the kernel holds it. */
export interface HeldChain {
  readonly chain: TableChain;
  readonly rules: readonly ObservedRule[];
  /** Rules of others jump to it, so that the kernel would not delete it. */
  readonly isReferred: boolean;
}

/** A rule in a chain of all Services. */
export interface SharedRule extends ChainRule, SharedObject {
  readonly at: 'head' | 'end';
}

export interface IptablesObjects {
  readonly frontend: ServiceChain;
  readonly held: HeldChain;
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
