/** Mode iptables for one family: chains and rules in tables that others use too. */
import { makeCounters } from '../../kernel/acct.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { compileRule } from '../../kernel/xt/compile.ts';
import { printRule } from '../../kernel/xt/print.ts';
import type { Family } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import {
  type Backend,
  type EndOfRepair,
  type ObjectOf,
  type OwnTables,
  type RepairPart,
  signOf,
  type Tally,
} from '../backend.ts';
import type { Applied, Environment, ModeConfig, RuleCount } from '../mode.ts';
import { type BatchMemory, IptablesBatchWriter } from './batch-writer.ts';
import { RuleCompiler } from './compiler.ts';
import {
  chainId,
  firewallRules,
  fixedChains,
  type IptablesConfig,
  watchedChains,
  wholeMode,
} from './layout.ts';
import type { TableName } from './names.ts';
import {
  chainAt,
  fixedRules,
  type IptablesObjects,
  ServiceChain,
  type SharedRule,
  sharedRule,
} from './objects.ts';
import { type IptablesObservation, observe, ruleName } from './observation.ts';
import { prune, type RepairContext, repairFixed } from './repair.ts';
import type { RuleTraffic } from './traffic.ts';
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
    const there = await found.rulesIn([...this.#config.part.shared, ...found.builtIns], pause);
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
    const held = found.rulesOf(chainId(first)) ?? [];
    const left = held.filter(({ handle }) => {
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

type Counts = Record<TableName, number>;

/** How many rules there are and how many were written, as kube-proxy counts them (7.11). */
class RuleCounts {
  /** Without the jumps from built-in chains, which kube-proxy does not count. */
  readonly #fixed: Counts = { nat: 0, filter: 0, mangle: 0 };
  readonly #written: Counts = { nat: 0, filter: 0, mangle: 0 };
  /** Those in chains of Services, and those of all Services that are not fixed. */
  readonly #others: Counts = { nat: 0, filter: 0, mangle: 0 };

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
