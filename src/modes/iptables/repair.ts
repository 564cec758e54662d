/** Compares what was found in the kernel with what is wanted and writes the difference. */
import { type CompiledRule, compileRule, readRule } from '../../kernel/xt/compile.ts';
import type { Counter } from '../counter.ts';
import type { Drift, Pause } from '../mode.ts';
import {
  firewallChain,
  firewallRules,
  fixedChains,
  type IptablesConfig,
  jumpRules,
  type PlacedRule,
  placeOf,
  sharedChains,
  type TableChain,
  tableNames,
} from './layout.ts';
import { isServiceChain, type TableName } from './names.ts';
import {
  type IptablesObservation,
  type ObservedRule,
  type Reference,
  ruleName,
} from './observation.ts';
import type { Transaction } from './transaction.ts';

/** A rule in a chain of all Services, for as long as anybody wants it. */
export interface SharedRule extends PlacedRule {
  /** Chain and rule in words: equal rules have the same. */
  readonly id: string;
  readonly at: 'head' | 'end';
  /** Who is to blame when the kernel refuses it. */
  readonly owner: string;
}

/** What a planner holds to be right beyond single Forwardings, and where it writes. */
export interface RepairContext {
  readonly config: IptablesConfig;
  readonly found: IptablesObservation;
  readonly transaction: Transaction;
  readonly shared: Counter<SharedRule>;
  /** Handles of shared rules that are in force, by id. */
  readonly handles: Map<string, number>;
  /** Chains that the kernel did not delete: to be emptied, and then taken from here. */
  readonly busy: Set<string>;
  /** Where to count what was not right. */
  readonly drift: { -readonly [K in keyof Drift]: Drift[K] };
}

export function sameRules(a: readonly CompiledRule[], b: readonly CompiledRule[]): boolean {
  return a.length === b.length && a.every((rule, i) => sameExpressions(rule, b[i]!));
}

type Expressions = Pick<ObservedRule, 'expressions'>;

function sameExpressions(a: Expressions, b: Expressions): boolean {
  return Buffer.compare(a.expressions, b.expressions) === 0;
}

/** `nodePorts`: the last rules of KUBE-SERVICES. Call it first. */
export async function repairFixed(
  context: RepairContext,
  nodePorts: readonly SharedRule[],
  pause: Pause,
): Promise<void> {
  const { config, found } = context;
  await forgetHandles(context, pause);
  for (const { rules, ...chain } of fixedChains(config)) {
    const compiled = rules.map((rule) => compileRule(found.family, rule));
    repairChain(context, chain, compiled, '');
  }
  for (const chain of sharedChains) {
    if (!found.chains.has(placeOf(chain))) repairChain(context, chain, [], '');
  }
  repairFirewall(context);
  repairNodePorts(context, nodePorts);
  for (const jump of jumpRules(config)) repairJump(context, jump);
  for (const table of tableNames) if (!found.tables.has(table)) context.transaction.addTable(table);
}

/**
 * What somebody else has deleted would make our own deletion fail, and what nobody wants any more
 * (a change that is to be planned anew) is not to be taken for known.
 */
async function forgetHandles(
  { found, handles, shared }: RepairContext,
  pause: Pause,
): Promise<void> {
  const there = await handlesOf(found, pause);
  for (const [id, handle] of handles) {
    const rest = pause();
    if (rest !== undefined) await rest;
    if (found.touched.has(id)) continue;
    const isWanted = shared.has(id) || shared.changes(id);
    if (!isWanted || !there.has(ruleName(tableOf(id), handle))) handles.delete(id);
  }
}

/** The rules in chains of all Services: `ruleName` → chain. */
async function handlesOf(
  found: IptablesObservation,
  pause: Pause,
): Promise<Map<string, { readonly chain: TableChain; readonly handle: number }>> {
  const rules = new Map<string, { readonly chain: TableChain; readonly handle: number }>();
  for (const chain of sharedChains) {
    for (const { handle } of found.chains.get(placeOf(chain)) ?? []) {
      rules.set(ruleName(chain.table, handle), { chain, handle });
      const rest = pause();
      if (rest !== undefined) await rest;
    }
  }
  return rules;
}

/** A chain whose rules we alone decide. */
export function repairChain(
  { drift, found, transaction }: RepairContext,
  chain: TableChain,
  rules: readonly CompiledRule[],
  owner: string,
): void {
  const place = placeOf(chain);
  if (found.touched.has(place) || transaction.has(place)) return;
  found.repaired.add(place);
  const held = found.chains.get(place);
  if (held !== undefined && sameHeld(held, rules)) return;
  transaction.putChain(chain, rules, owner);
  drift[held === undefined ? 'missing' : 'wrong'] += 1;
}

function sameHeld(held: readonly ObservedRule[], rules: readonly CompiledRule[]): boolean {
  return held.length === rules.length && held.every((rule, i) => sameExpressions(rule, rules[i]!));
}

/** The rule in a chain of all Services: there once, with a handle that we know. */
export function repairShared(context: RepairContext, rule: SharedRule): void {
  const { found, shared } = context;
  const { id } = rule;
  if (found.touched.has(id) || found.repaired.has(id) || shared.changes(id)) return;
  found.repaired.add(id);
  const compiled = compileRule(found.family, rule.rule);
  const held = found.find(rule, compiled.expressions);
  if (held !== undefined) {
    context.handles.set(id, held);
    return;
  }
  context.transaction.addRule({ ...rule, compiled });
  context.drift.missing += 1;
}

/**
 * They must be the last: a rule behind them would not see what they took. Where they are not, they
 * are written again at the end, and `prune` deletes those that are not known any more.
 */
function repairNodePorts(context: RepairContext, wanted: readonly SharedRule[]): void {
  const { found, handles, shared } = context;
  const [first] = wanted;
  const held = (first && found.chains.get(placeOf(first))) ?? [];
  const last = new Set(held.slice(held.length - wanted.length).map(({ handle }) => handle));
  for (const rule of wanted) {
    const { id } = rule;
    const compiled = compileRule(found.family, rule.rule);
    const handle = found.find(rule, compiled.expressions);
    const settled = found.touched.has(id) || shared.changes(id);
    if (settled || handle === undefined || last.has(handle)) {
      repairShared(context, rule);
      continue;
    }
    found.repaired.add(id);
    handles.delete(id);
    context.transaction.addRule({ ...rule, compiled });
    context.drift.wrong += 1;
  }
}

/** Only what we need in it: others have rules there too. */
function repairFirewall({ config, drift, found, transaction }: RepairContext): void {
  const chain: TableChain = { table: 'filter', chain: firewallChain };
  const held = found.chains.get(placeOf(chain));
  for (const rule of firewallRules(config)) {
    const compiled = compileRule(found.family, rule);
    if (held === undefined) transaction.putChain(chain, [compiled], '');
    else if (held.some((one) => sameExpressions(one, compiled))) continue;
    else transaction.addRule({ ...chain, id: undefined, at: 'end', owner: '', compiled });
    drift.missing += 1;
  }
}

/** Wherever among the rules of others it is: only a new one comes first. */
function repairJump({ drift, found, transaction }: RepairContext, jump: PlacedRule): void {
  const compiled = compileRule(found.family, jump.rule);
  const held = found.chains.get(placeOf(jump));
  if (held === undefined) transaction.addBuiltIn(jump);
  const same = held?.find((one) => sameExpressions(one, compiled));
  if (same !== undefined) {
    found.repaired.add(ruleName(jump.table, same.handle));
    return;
  }
  transaction.addRule({ ...jump, id: undefined, at: 'head', owner: '', compiled });
  drift.missing += 1;
}

/** Deletes what is ours and nobody wants. Call it last. */
export async function prune(context: RepairContext, pause: Pause): Promise<void> {
  const { found, handles } = context;
  pruneJumps(context);
  for (const place of found.chains.keys()) {
    const chain = chainAt(place);
    if (chain.table === 'nat' && isServiceChain(chain.chain)) pruneChain(context, chain);
    const rest = pause();
    if (rest !== undefined) await rest;
  }
  const rules = await handlesOf(found, pause);
  for (const [id, handle] of handles) {
    rules.delete(ruleName(tableOf(id), handle));
    const rest = pause();
    if (rest !== undefined) await rest;
  }
  for (const [name, { chain, handle }] of rules) {
    if (!found.touched.has(name)) deleteRule(context, chain, handle);
  }
}

function tableOf(id: string): TableName {
  return id.slice(0, id.indexOf(' ')) as TableName;
}

export function chainAt(place: string): TableChain {
  return { table: tableOf(place), chain: place.slice(place.indexOf(' ') + 1) };
}

function deleteRule({ drift, transaction }: RepairContext, chain: TableChain, handle: number) {
  transaction.deleteRule({ ...chain, id: undefined, handle, owner: '' });
  drift.unwanted += 1;
}

/** Jumps to our chains that no rule of ours is: from kube-proxies before us, or twice the same. */
function pruneJumps(context: RepairContext): void {
  const { found } = context;
  for (const reference of found.references) {
    const { from, handle, to } = reference;
    const name = ruleName(from.table, handle);
    if (isServiceChain(to.chain) || found.repaired.has(name) || found.touched.has(name)) continue;
    if (isOwnJump(found, reference)) deleteRule(context, from, handle);
  }
}

/**
 * Whether a jump is like those of every kube-proxy: from a built-in chain, and not only for certain
 * packets. Others make their own with care.
 */
export function isOwnJump(found: IptablesObservation, { expressions, from }: Reference): boolean {
  const isBuiltIn = found.builtIns.some((chain) => placeOf(chain) === placeOf(from));
  const rule = isBuiltIn ? readRule(found.family, expressions) : undefined;
  if (rule?.target?.kind !== 'jump') return false;
  const { destination, inputInterface, protocol, source, matches = [] } = rule;
  const picky = [destination, inputInterface, protocol, source].some((one) => one !== undefined);
  return !picky && matches.every(({ kind }) => kind === 'comment' || kind === 'conntrack');
}

function pruneChain(context: RepairContext, chain: TableChain): void {
  const { busy, drift, found, transaction } = context;
  const place = placeOf(chain);
  if (found.repaired.has(place) || found.touched.has(place) || transaction.has(place)) return;
  // What else refers to a chain, as a map of nft, is not seen: an audit tries again.
  const isRefused = busy.delete(place);
  const needed = isRefused || found.references.some(({ to }) => placeOf(to) === place);
  if (needed && found.chains.get(place)!.length === 0) return;
  // The kernel deletes no chain that a rule jumps to.
  if (needed) transaction.putChain(chain, [], '');
  else transaction.deleteChain(chain, '');
  drift.unwanted += 1;
}
