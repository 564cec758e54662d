/** Repairs the fixed chains of the mode, and deletes what is not desired. */
import { compileRule, readRule } from '../../kernel/xt/compile.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import type { Counts } from '../backend.ts';
import {
  chainId,
  type FixedChain,
  firewallChain,
  firewallRules,
  fixedChains,
  type IptablesConfig,
  jumpRules,
  type TableChain,
} from './layout.ts';
import { isServiceChain } from './names.ts';
import { chainAt, sameExpressions, sameRules } from './objects.ts';
import { type IptablesObservation, type Reference, ruleName } from './observation.ts';
import type { Transaction } from './transaction.ts';

export interface RepairContext {
  readonly config: IptablesConfig;
  readonly found: IptablesObservation;
  readonly transaction: Transaction;
  /** Of rules in chains of all Services, by the rules' ids. */
  readonly handles: Map<string, number>;
  /** See `RepairPart`. Rules that batches have deleted are in it by their `ruleName`. */
  readonly touched: ReadonlySet<string>;
  /** Counts what was not right. */
  readonly drift: Counts;
}

export function repairFixed(context: RepairContext): void {
  const { config, found, transaction } = context;
  for (const chain of fixedChains(config)) repairChain(context, chain);
  for (const chain of config.part.shared) {
    if (found.rulesOf(chainId(chain)) === undefined) repairChain(context, { ...chain, rules: [] });
  }
  repairFirewall(context);
  for (const jump of jumpRules(config)) {
    if (found.rulesOf(chainId(jump)) === undefined) transaction.addBuiltIn(jump);
  }
  for (const table of config.part.tables) if (!found.tables.has(table)) transaction.addTable(table);
}

/** A chain whose rules we alone decide. */
function repairChain({ drift, found, transaction }: RepairContext, chain: FixedChain): void {
  const rules = chain.rules.map((rule) => compileRule(found.family, rule));
  const observed = found.rulesOf(chainId(chain));
  if (observed !== undefined && sameRules(observed, rules)) return;
  transaction.putChain(chain, rules, '');
  drift[observed === undefined ? 'missing' : 'wrong'] += 1;
}

/** Adds the rules that we need. Others have rules in this chain too. */
function repairFirewall({ config, drift, found, transaction }: RepairContext): void {
  const chain: TableChain = { table: 'filter', chain: firewallChain };
  const observed = found.rulesOf(chainId(chain));
  for (const rule of firewallRules(config)) {
    const compiled = compileRule(found.family, rule);
    if (observed === undefined) transaction.putChain(chain, [compiled], '');
    else if (observed.some((one) => sameExpressions(one, compiled))) continue;
    else transaction.addRule({ ...chain, id: undefined, at: 'end', owner: '', compiled });
    drift.missing += 1;
  }
}

/** Deletes rules of ours that are not desired. */
export async function prune(context: RepairContext, pause: Pause): Promise<void> {
  const { config, found, handles, touched } = context;
  const kept = new Set(touched);
  await inTurns(handles, pause, ([id, handle]) => {
    kept.add(ruleName(chainAt(id).table, handle));
  });
  pruneJumps(context, kept);
  const rules = await found.rulesIn(config.part.shared, pause);
  await inTurns(rules, pause, ([name, { handle, ...chain }]) => {
    if (!kept.has(name)) deleteRule(context, chain, handle);
  });
}

function deleteRule({ drift, transaction }: RepairContext, chain: TableChain, handle: number) {
  transaction.deleteRule({ ...chain, id: undefined, handle, owner: '' });
  drift.unwanted += 1;
}

/** Deletes jumps to our chains that are not ours: of an earlier kube-proxy, or doubles. */
function pruneJumps(context: RepairContext, kept: ReadonlySet<string>): void {
  const { found } = context;
  for (const reference of found.references) {
    const { from, handle, to } = reference;
    if (isServiceChain(to.chain) || kept.has(ruleName(from.table, handle))) continue;
    if (isOwnJump(found, reference)) deleteRule(context, from, handle);
  }
}

/**
 * Reports whether a jump is like those that every kube-proxy adds: from a built-in chain, and for
 * all packets. Any other jump belongs to another program and stays.
 */
export function isOwnJump(found: IptablesObservation, { expressions, from }: Reference): boolean {
  const isBuiltIn = found.builtIns.some((chain) => chainId(chain) === chainId(from));
  const rule = isBuiltIn ? readRule(found.family, expressions) : undefined;
  if (rule?.target?.kind !== 'jump') return false;
  const { destination, inputInterface, protocol, source, matches = [] } = rule;
  const picky = [destination, inputInterface, protocol, source].some((one) => one !== undefined);
  return !picky && matches.every(({ kind }) => kind === 'comment' || kind === 'conntrack');
}
