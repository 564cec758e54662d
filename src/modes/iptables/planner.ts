/** Turns changes of Forwardings into transactions on the tables of iptables, for one family. */
import { makeCounters } from '../../kernel/acct.ts';
import type { Kernel, TableName } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { type CompiledRule, compileRule } from '../../kernel/xt/compile.ts';
import { printRule } from '../../kernel/xt/print.ts';
import { xtTables } from '../../kernel/xt/tables.ts';
import type { Family } from '../../net/address.ts';
import { type Forwarding, forwardingKey } from '../../state/types.ts';
import { Counter } from '../counter.ts';
import type {
  Batch,
  Drift,
  Environment,
  ModeConfig,
  Observation,
  Pause,
  Planner,
  RuleCount,
} from '../mode.ts';
import { RuleCompiler } from './compiler.ts';
import { type IptablesConfig, nodePortRules, type PlacedRule, placeOf } from './layout.ts';
import { IptablesObservation, observe, ruleName } from './observation.ts';
import {
  prune,
  type RepairContext,
  repairChain,
  repairFixed,
  repairShared,
  type SharedRule,
  sameRules,
} from './repair.ts';
import { RuleCounts } from './rule-counts.ts';
import { Transaction } from './transaction.ts';
import { ownChains, sharedRules } from './translation.ts';

/** Roughly what a shared rule takes in a batch, for `pendingBytes`. */
const sharedBytes = 640;

export class IptablesPlanner implements Planner {
  readonly family: Family;
  /** All of them, as they are everyone's. */
  readonly exposed: readonly TableName[];
  readonly batchBytesMax = 4 * 1024 * 1024;
  /** A chain may be deleted together with the rules that jump to it. */
  readonly deferred = false;
  /** What packets have written goes with the rules that name it. */
  readonly sweepDue = false;
  #config: IptablesConfig;
  readonly #compiler: RuleCompiler;
  #environment: Environment;
  /** Who wants which rules in the chains of all Services. */
  readonly #shared = new Counter<SharedRule>();
  /** Handles of those that are in force, by id. */
  readonly #handles = new Map<string, number>();
  readonly #counts: RuleCounts;
  /** Chains that the kernel did not delete, because rules of others need them; as places. */
  readonly #busy = new Set<string>();
  #pendingShared = 0;
  /** Chains to write, and what repairs write. */
  #transaction: Transaction;
  #observation: IptablesObservation | undefined;

  constructor(config: ModeConfig, environment: Environment) {
    this.family = config.family;
    this.exposed = xtTables.map((table) => ({ family: NFPROTO[config.family], table }));
    this.#config = { ...config, counted: false };
    this.#compiler = new RuleCompiler(config.family);
    this.#counts = new RuleCounts(this.#config);
    this.#environment = environment;
    this.#transaction = new Transaction(config.family, this.#busy);
    this.#startAnew();
    this.#shared.take();
  }

  get pendingBytes(): number {
    return this.#transaction.byteLength + this.#pendingShared * sharedBytes;
  }

  change(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const owner = forwardingKey((next ?? previous)!.servicePort);
    for (const rule of this.#sharedRules(previous)) this.#release(rule);
    for (const rule of this.#sharedRules(next)) this.#claim(rule);
    const before = this.#ownChains(previous);
    const after = this.#ownChains(next);
    this.#counts.own(owner, countRules(after));
    for (const [name, rules] of after) {
      const old = before.get(name);
      if (old !== undefined && sameRules(old, rules)) continue;
      this.#transaction.putChain({ table: 'nat', chain: name }, rules, owner);
    }
    for (const name of before.keys()) {
      if (!after.has(name)) this.#transaction.deleteChain({ table: 'nat', chain: name }, owner);
    }
  }

  environment(next: Environment): void {
    for (const rule of this.#nodePortRules()) this.#release(rule);
    this.#environment = next;
    for (const rule of this.#nodePortRules()) this.#claim(rule);
  }

  take(): Batch | undefined {
    const transaction = this.#transaction;
    this.#transaction = new Transaction(this.family, this.#busy);
    this.#pendingShared = 0;
    const { needed, unused } = this.#shared.take();
    for (const [id, { table, chain, owner }] of unused) {
      const handle = this.#handles.get(id);
      if (handle !== undefined) transaction.deleteRule({ id, table, chain, handle, owner });
    }
    for (const [id, { table, chain, rule, at, owner }] of needed) {
      transaction.addRule({
        id,
        table,
        chain,
        at,
        owner,
        compiled: compileRule(this.family, rule),
      });
    }
    this.#touch(transaction);
    for (const [table, rules] of transaction.rulesWritten()) this.#counts.written(table, rules);
    const { gone } = transaction.rules();
    return transaction.batch((handles) => {
      for (const { id } of gone) if (id !== undefined) this.#handles.delete(id);
      for (const [id, handle] of handles) this.#handles.set(id, handle);
    });
  }

  /** A repair under way leaves alone what was written since it read the kernel. */
  #touch(transaction: Transaction): void {
    const touched = this.#observation?.touched;
    if (touched === undefined) return;
    for (const place of transaction.chains()) touched.add(place);
    const { come, gone } = transaction.rules();
    for (const { id } of come) if (id !== undefined) touched.add(id);
    for (const { id, table, handle } of gone) {
      if (id !== undefined) touched.add(id);
      touched.add(ruleName(table, handle));
    }
  }

  takeDeferred(): undefined {
    return undefined;
  }

  async takeSweep(): Promise<undefined> {
    return undefined;
  }

  async reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void> {
    this.#startAnew();
    for (const forwarding of inForce) {
      for (const rule of this.#sharedRules(forwarding)) this.#claim(rule);
      const rest = pause();
      if (rest !== undefined) await rest;
    }
    this.#shared.take();
    this.#pendingShared = 0;
  }

  #startAnew(): void {
    this.#transaction = new Transaction(this.family, this.#busy);
    this.#shared.clear();
    this.#counts.forget();
    for (const rule of this.#nodePortRules()) this.#claim(rule);
    this.#pendingShared = 0;
  }

  async prepare(kernel: Kernel): Promise<void> {
    this.#config = { ...this.#config, counted: await makeCounters(kernel, this.family) };
  }

  async observe(kernel: Kernel, pause: Pause): Promise<IptablesObservation> {
    this.#observation = await observe(kernel, this.family, pause);
    return this.#observation;
  }

  async repairFixed(found: Observation, pause: Pause): Promise<Drift> {
    const context = this.#context(found);
    await repairFixed(context, this.#nodePortRules(), pause);
    return context.drift;
  }

  repair(found: Observation, wanted: Forwarding): Drift {
    const context = this.#context(found);
    const owner = forwardingKey(wanted.servicePort);
    const chains = this.#ownChains(wanted);
    this.#counts.own(owner, countRules(chains));
    for (const [chain, rules] of chains) {
      repairChain(context, { table: 'nat', chain }, rules, owner);
    }
    for (const rule of this.#sharedRules(wanted)) repairShared(context, rule);
    return context.drift;
  }

  async prune(found: Observation, pause: Pause): Promise<Drift> {
    const context = this.#context(found);
    await prune(context, pause);
    if (this.#observation === found) this.#observation = undefined;
    return context.drift;
  }

  #context(found: Observation): RepairContext {
    return {
      config: this.#config,
      found: own(found),
      transaction: this.#transaction,
      shared: this.#shared,
      handles: this.#handles,
      busy: this.#busy,
      drift: { missing: 0, wrong: 0, unwanted: 0 },
    };
  }

  takeRuleCounts(): readonly RuleCount[] {
    return this.#counts.take();
  }

  #claim(rule: SharedRule): void {
    if (!this.#shared.has(rule.id)) this.#counts.shared(rule, 1);
    this.#shared.claim(rule.id, rule);
    this.#pendingShared += 1;
  }

  #release(rule: SharedRule): void {
    this.#shared.release(rule.id, rule);
    if (!this.#shared.has(rule.id)) this.#counts.shared(rule, -1);
    this.#pendingShared += 1;
  }

  #sharedRules(forwarding: Forwarding | undefined): SharedRule[] {
    if (forwarding === undefined) return [];
    const owner = forwardingKey(forwarding.servicePort);
    const rules = sharedRules(this.#config, forwarding);
    return rules.map((placed) => this.#identified(placed, 'head', owner));
  }

  #nodePortRules(): SharedRule[] {
    const rules = nodePortRules(this.#config, this.#environment);
    const chain = { table: 'nat', chain: 'KUBE-SERVICES' } as const;
    const all = rules.map((rule) => this.#identified({ ...chain, rule }, 'end', ''));
    return [...new Map(all.map((rule) => [rule.id, rule])).values()];
  }

  #identified(placed: PlacedRule, at: SharedRule['at'], owner: string): SharedRule {
    const id = `${placeOf(placed)} ${printRule(this.family, placed.rule)}`;
    return { ...placed, id, at, owner };
  }

  /** Chains of table nat by name, with their rules. */
  #ownChains(forwarding: Forwarding | undefined): Map<string, CompiledRule[]> {
    const compiled = new Map<string, CompiledRule[]>();
    if (forwarding === undefined) return compiled;
    for (const [name, rules] of ownChains(this.#config, forwarding)) {
      compiled.set(
        name,
        rules.map((rule) => this.#compiler.compile(rule)),
      );
    }
    return compiled;
  }
}

function countRules(chains: ReadonlyMap<string, readonly CompiledRule[]>): number {
  return [...chains.values()].reduce((sum, { length }) => sum + length, 0);
}

/** An Observation is only ever handed back to the mode that made it. */
function own(found: Observation): IptablesObservation {
  if (found instanceof IptablesObservation) return found;
  throw new TypeError('an observation of another mode');
}
