/** Mode iptables for one family: chains and rules in tables that others use too. */
import { makeCounters } from '../../kernel/acct.ts';
import type { GoneRule, Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { compileRule } from '../../kernel/xt/compile.ts';
import { printRule } from '../../kernel/xt/print.ts';
import type { Family } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import {
  type Backend,
  type Counts,
  countDifference,
  type Difference,
  type EndOfRepair,
  type ObjectDifference,
  type ObjectOf,
  type OwnTables,
  type RepairPart,
  signOf,
  type Tally,
  type Writer,
} from '../backend.ts';
import type { Applied, Environment, ModeConfig, RuleCount, WrittenBatch } from '../mode.ts';
import { RuleCompiler } from './compiler.ts';
import {
  chainId,
  firewallRules,
  fixedChains,
  type IptablesConfig,
  type TableChain,
  watchedChains,
  wholeMode,
} from './layout.ts';
import type { TableName } from './names.ts';
import {
  chainAt,
  fixedRules,
  type IptablesObjects,
  type ObservedChain,
  ServiceChain,
  type SharedRule,
  sharedRule,
} from './objects.ts';
import { type IptablesObservation, observe, ruleName } from './observation.ts';
import { prune, type RepairContext, repairFixed } from './repair.ts';
import type { RuleTraffic } from './traffic.ts';
import { Transaction } from './transaction.ts';
import { type Translation, translate } from './translation.ts';

export interface IptablesTypes extends IptablesObjects {
  readonly found: IptablesObservation;
  readonly writer: IptablesBatchWriter;
}

/** See `Planner`. */
export const batchBytesMax = 4 * 1024 * 1024;

export class IptablesBackend implements Backend<IptablesTypes> {
  readonly tables: OwnTables;
  readonly tally: Tally<IptablesTypes>;
  readonly #compiler: RuleCompiler;
  readonly #memory: BatchMemory;
  readonly #family: Family;
  readonly #counters: { counted: boolean };
  #config: IptablesConfig;

  /** `counters`: whether the kernel has named counters, as far as it is known. */
  constructor(
    config: ModeConfig,
    traffic: RuleTraffic,
    counters = { counted: false },
    part = wholeMode,
  ) {
    const { family } = config;
    this.#family = family;
    this.#counters = counters;
    this.#config = { ...config, ...counters, part };
    this.#compiler = new RuleCompiler(family);
    const counts = new RuleCounts(this.#config);
    this.#memory = {
      handles: new Map(),
      busy: new Set(),
      written: (table, rules) => counts.written(table, rules),
      gone: (chain, rule) => traffic.add(family, chain, rule),
    };
    // Others write all of these tables.
    const at = { family: NFPROTO[family], chains: watchedChains };
    const exposed = part.tables.map((table) => ({ ...at, table }));
    this.tables = { exposed, prepare: (kernel) => this.#prepare(kernel) };
    this.tally = {
      count: (object, step) => {
        if (object.isShared !== true) counts.add('nat', signOf(step) * object.length);
        else if (object.isHook !== true) counts.add(object.table, signOf(step));
      },
      clear: () => counts.clear(),
      takeRules: () => counts.take(),
    };
  }

  async #prepare(kernel: Kernel): Promise<void> {
    this.#counters.counted = await makeCounters(kernel, this.#family);
    this.#config = { ...this.#config, ...this.#counters };
  }

  describe(forwarding: Forwarding): readonly string[] {
    const { chains, rules } = this.#translate(forwarding);
    const shared = rules.map(({ table, chain, rule }) => {
      return `-t ${table} -A ${chain} ${printRule(this.#family, rule)}`;
    });
    return [...shared, ...chains.map(({ chain, size }) => `-t nat -N ${chain}, ${size} rules`)];
  }

  objects(forwarding: Forwarding): ObjectOf<IptablesTypes>[] {
    const { chains, rules } = this.#translate(forwarding);
    return [
      ...rules.map((rule) => sharedRule(this.#family, rule, rule.isRange ? 'behind' : 'head')),
      ...chains.map((chain) => new ServiceChain(chain, this.#compiler)),
    ];
  }

  #translate(forwarding: Forwarding): Translation {
    const { part } = this.#config;
    const { chains, rules } = translate(this.#config, forwarding);
    return {
      chains: part.tables.includes('nat') ? chains : [],
      rules: rules.filter(({ table, chain }) => part.has(table, chain)),
    };
  }

  ofEnvironment(environment: Environment): SharedRule[] {
    return fixedRules(this.#config, environment);
  }

  writer(): IptablesBatchWriter {
    return new IptablesBatchWriter(this.#config, this.#memory);
  }

  read(kernel: KernelReader, pause: Pause): Promise<IptablesObservation> {
    const { handles } = this.#memory;
    return observe(kernel, this.#family, pause, (id) => handles.has(id), this.#config.part);
  }

  settle(outcome: Applied | 'nothing to write' | 'refused'): void {
    const { taken } = this.#memory;
    this.#memory.taken = undefined;
    if (typeof outcome === 'object') taken?.(outcome);
  }

  async repairFixed(
    found: IptablesObservation,
    repair: RepairPart<IptablesTypes>,
  ): Promise<EndOfRepair<IptablesTypes>> {
    await this.#findHandles(found, repair);
    repairFixed(this.#context(found, repair));
    return (end) => prune(this.#context(found, end), end.pause);
  }

  /** Finds the handles of our single rules, and forgets those of rules that others have deleted. */
  async #findHandles(
    found: IptablesObservation,
    { shared, isLeaving, pause, touched }: RepairPart<IptablesTypes>,
  ): Promise<void> {
    const { handles } = this.#memory;
    const kept = new Set(touched);
    const there = await found.rulesIn(this.#config.part.shared, pause);
    await inTurns(handles, pause, ([id, handle]) => {
      const name = ruleName(chainAt(id).table, handle);
      if (kept.has(id)) kept.add(name);
      else if (!there.has(name) || !isLeaving(id)) handles.delete(id);
    });
    const last: SharedRule[] = [];
    const behind = new Set<number>();
    await inTurns(shared(), pause, ({ object }) => {
      if (kept.has(object.id)) return;
      const { expressions } = compileRule(this.#family, object.rule);
      const handle = found.find(object, expressions);
      if (handle === undefined) return;
      handles.set(object.id, handle);
      if (object.at === 'end') last.push(object);
      if (object.at === 'behind') behind.add(handle);
    });
    this.#leaveOutMisplaced(found, last, behind, kept);
  }

  /**
   * Rules for node ports must be the last of their chain: a rule behind them would not see the
   * packets that they take. Where they are not the last, they are added at the end again, and
   * `prune` deletes the old ones. Rules `behind` single ports are of other addresses.
   */
  #leaveOutMisplaced(
    found: IptablesObservation,
    last: readonly SharedRule[],
    behind: ReadonlySet<number>,
    touched: ReadonlySet<string>,
  ): void {
    const { handles } = this.#memory;
    const [first] = last;
    if (first === undefined) return;
    const observed = found.rulesOf(chainId(first)) ?? [];
    const left = observed.filter(({ handle }) => {
      return !behind.has(handle) && !touched.has(ruleName(first.table, handle));
    });
    const ends = new Set(left.slice(-last.length).map(({ handle }) => handle));
    for (const { id } of last) {
      if (ends.has(handles.get(id)!)) continue;
      handles.delete(id);
      found.misplaced.add(id);
    }
  }

  #context(
    found: IptablesObservation,
    { drift, touched, writer: { transaction } }: RepairPart<IptablesTypes>,
  ): RepairContext {
    const { handles } = this.#memory;
    return { config: this.#config, found, transaction, handles, touched, drift };
  }
}

/** kube-proxy counts in these tables only: it has no rule in mangle. */
const tables = ['nat', 'filter'] as const satisfies readonly TableName[];

type RulesByTable = Record<TableName, number>;

/** How many rules there are and how many were written, as kube-proxy counts them (7.11). */
class RuleCounts {
  /** Without the jumps from built-in chains, which kube-proxy does not count. */
  readonly #fixed: RulesByTable = { nat: 0, filter: 0, mangle: 0 };
  readonly #written: RulesByTable = { nat: 0, filter: 0, mangle: 0 };
  /** Those in chains of Services, and those of all Services that are not fixed. */
  readonly #others: RulesByTable = { nat: 0, filter: 0, mangle: 0 };

  constructor(config: IptablesConfig) {
    for (const { table, rules } of fixedChains(config)) this.#fixed[table] += rules.length;
    this.#fixed.filter += firewallRules(config).length;
  }

  /** Adds rules that are not fixed; a negative number takes them away. */
  add(table: TableName, rules: number): void {
    this.#others[table] += rules;
  }

  written(table: TableName, rules: number): void {
    this.#written[table] += rules;
  }

  /** Forgets all rules that are not fixed. */
  clear(): void {
    for (const table of tables) this.#others[table] = 0;
  }

  /** `written`: since the last call. */
  take(): RuleCount[] {
    return tables.map((table) => {
      const total = this.#fixed[table] + this.#others[table];
      const written = this.#written[table];
      this.#written[table] = 0;
      return { table, total, written };
    });
  }
}

/** What outlives batches. */
interface BatchMemory {
  /** Handles of the rules in chains of all Services, by the rules' ids. */
  readonly handles: Map<string, number>;
  /** Chains that the kernel refused to delete, by `chainId`. The next repair empties them. */
  readonly busy: Set<string>;
  /** Receives the number of rules written into a table. */
  readonly written: (table: TableName, rules: number) => void;
  /** Receives the content of each rule that the kernel has deleted, if traffic is counted. */
  readonly gone: (chain: TableChain, rule: GoneRule) => void;
  /** Receives the kernel's answer to the batch that was taken; undefined: none was. */
  taken?: ((result: Applied) => void) | undefined;
}

/** Writes the differences of chains and shared rules into one transaction. */
class IptablesBatchWriter implements Writer<IptablesObjects> {
  readonly transaction: Transaction;
  readonly #config: IptablesConfig;
  readonly #memory: BatchMemory;

  constructor(config: IptablesConfig, memory: BatchMemory) {
    this.transaction = new Transaction(config.family, memory.busy, config.countsTraffic);
    this.#config = config;
    this.#memory = memory;
  }

  write(difference: ObjectDifference<IptablesObjects>): void {
    if (difference.of === 'frontend') this.#frontend(difference);
    else if (difference.after === undefined) this.#delete(difference.id, difference.owner);
    else this.#add(difference.after, difference.owner);
  }

  #frontend(difference: Difference<IptablesObjects>): void {
    const { before, after, owner } = difference;
    if (after === undefined) {
      if (difference.from === 'kernel') this.#deleteObserved(difference.before!, difference.drift);
      else if (before !== undefined) this.transaction.deleteChain(before.chain, owner);
      return;
    }
    if (before !== undefined && after.hasRulesOf(before)) return;
    this.transaction.putChain(after.chain, after, owner);
    if (difference.from === 'kernel') countDifference(difference);
  }

  /** A reference from a map is not seen: then the deletion fails, and an audit tries again. */
  #deleteObserved({ chain, isReferred, rules }: ObservedChain, drift: Counts): void {
    const wasRefused = this.#memory.busy.delete(chainId(chain));
    const isNeeded = isReferred || wasRefused;
    if (isNeeded && rules.length === 0) return;
    if (isNeeded) this.transaction.putChain(chain, [], '');
    else this.transaction.deleteChain(chain, '');
    drift.unwanted += 1;
  }

  #add({ id, table, chain, rule, at }: SharedRule, owner: string): void {
    const compiled = compileRule(this.#config.family, rule);
    this.transaction.addRule({ id, table, chain, at, owner, compiled });
  }

  #delete(id: string, owner: string): void {
    const handle = this.#memory.handles.get(id);
    if (handle !== undefined) this.transaction.deleteRule({ ...chainAt(id), id, handle, owner });
  }

  batch(): WrittenBatch | undefined {
    const { handles, written, gone: reportGone } = this.#memory;
    for (const [table, rules] of this.transaction.rulesWritten()) written(table, rules);
    const { gone } = this.transaction.rules();
    const batch = this.transaction.batch();
    if (batch === undefined) return undefined;
    this.#memory.taken = (result) => {
      for (const [chain, rule] of this.transaction.goneOf(result)) reportGone(chain, rule);
      for (const { id } of gone) if (id !== undefined) handles.delete(id);
      for (const [id, handle] of this.transaction.handlesOf(result)) handles.set(id, handle);
    };
    const deleted = () => gone.map(({ table, handle }) => ruleName(table, handle));
    return { ...batch, deleted };
  }
}
