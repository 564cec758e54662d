/** Mode iptables for one family: chains and rules in tables that others use too. */
import { makeCounters } from '../../kernel/acct.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { compileRule } from '../../kernel/xt/compile.ts';
import { printRule } from '../../kernel/xt/print.ts';
import { xtTables } from '../../kernel/xt/tables.ts';
import type { Family } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import {
  type Backend,
  type Fixed,
  type FixedRepair,
  noCounts,
  type Objects,
  type Tables,
  type Tally,
} from '../backend.ts';
import { type Environment, inTurns, type ModeConfig, type Pause } from '../mode.ts';
import { BatchWriter, type InForce } from './batch-writer.ts';
import { RuleCompiler } from './compiler.ts';
import { chainId, type IptablesConfig } from './layout.ts';
import {
  chainAt,
  type IptablesObjects,
  nodePortObjects,
  ruleBytes,
  ServiceChain,
  type SharedRule,
  sharedRule,
} from './objects.ts';
import { type IptablesObservation, observe, ruleName } from './observation.ts';
import { prune, type RepairContext, repairFixed } from './repair.ts';
import { RuleCounts } from './rule-counts.ts';
import type { RuleTraffic } from './traffic.ts';
import { ownChains, sharedRules } from './translation.ts';

interface IptablesTypes extends IptablesObjects {
  readonly found: IptablesObservation;
  readonly writer: BatchWriter;
}

/** See `Planner`. */
const batchBytesMax = 4 * 1024 * 1024;

export class IptablesBackend implements Backend<IptablesTypes> {
  readonly family: Family;
  readonly tables: Tables<IptablesTypes>;
  readonly tally: Tally<IptablesTypes>;
  readonly #compiler: RuleCompiler;
  readonly #inForce: InForce;
  #config: IptablesConfig;
  readonly #traffic: RuleTraffic;
  /** The observation that a repair compares. It records the rules that batches delete since. */
  #found: IptablesObservation | undefined;

  /** `counted`: see `IptablesConfig`, as far as it is known. */
  constructor(config: ModeConfig, traffic: RuleTraffic, counted = false) {
    this.family = config.family;
    this.#config = { ...config, counted };
    this.#traffic = traffic;
    this.#compiler = new RuleCompiler(config.family);
    const counts = new RuleCounts(this.#config);
    this.#inForce = {
      handles: new Map(),
      busy: new Set(),
      written: (table, rules) => counts.written(table, rules),
      deleted: (table, handle) => this.#found?.noteDeleted(ruleName(table, handle)),
      gone: (chain, rule) => traffic.add(this.family, chain, rule),
    };
    this.tables = {
      // Others write all of these tables.
      exposed: xtTables.map((table) => ({ family: NFPROTO[config.family], table })),
      batchBytesMax,
      prepare: async (kernel: Kernel) => {
        this.#config = { ...this.#config, counted: await makeCounters(kernel, this.family) };
      },
      takeRuleCounts: () => counts.take(),
    };
    this.tally = {
      frontend: ({ size }, step) => counts.add('nat', step === 'released' ? -size : size),
      shared: ({ table }, step) => counts.add(table, step),
      clear: () => counts.clear(),
    };
  }

  twin(): IptablesBackend {
    return new IptablesBackend(this.#config, this.#traffic, this.#config.counted);
  }

  describe(forwarding: Forwarding): readonly string[] {
    const chains = ownChains(this.#config, forwarding);
    const rules = sharedRules(this.#config, forwarding).map(({ table, chain, rule }) => {
      return `-t ${table} -A ${chain} ${printRule(this.family, rule)}`;
    });
    return [...rules, ...chains.map(({ chain, size }) => `-t nat -N ${chain}, ${size} rules`)];
  }

  objects(forwarding: Forwarding): Objects<IptablesTypes> {
    const frontends = ownChains(this.#config, forwarding).map((chain) => {
      return new ServiceChain(chain, this.#compiler);
    });
    const bytes = frontends.reduce((sum, { size }) => sum + size * ruleBytes, 0);
    const shared = sharedRules(this.#config, forwarding).map((rule) => {
      return sharedRule(this.family, rule, 'head');
    });
    return { frontends, shared, bytes };
  }

  ofEnvironment(environment: Environment): SharedRule[] {
    return nodePortObjects(this.#config, environment);
  }

  writer(): BatchWriter {
    return new BatchWriter(this.#config, this.#inForce);
  }

  async read(kernel: Kernel, pause: Pause): Promise<IptablesObservation> {
    const { handles } = this.#inForce;
    this.#found = await observe(kernel, this.family, pause, (id) => handles.has(id));
    return this.#found;
  }

  async repairFixed(
    found: IptablesObservation,
    writer: BatchWriter,
    fixed: Fixed<IptablesTypes>,
    pause: Pause,
  ): Promise<FixedRepair<BatchWriter>> {
    const context = this.#context(found, writer);
    await this.#findHandles(found, fixed, pause);
    repairFixed(context);
    return { drift: context.drift, prune: (last, pause) => this.#prune(found, last, pause) };
  }

  /** Finds the handles of our shared rules, and forgets those of rules that others have deleted. */
  async #findHandles(
    found: IptablesObservation,
    { shared, isLeaving }: Fixed<IptablesTypes>,
    pause: Pause,
  ): Promise<void> {
    const { handles } = this.#inForce;
    const kept = new Set(found.touched);
    const there = await found.sharedRules(pause);
    await inTurns(handles, pause, ([id, handle]) => {
      const isThere = there.has(ruleName(chainAt(id).table, handle));
      if (!kept.has(id) && !(isThere && isLeaving(id))) handles.delete(id);
    });
    const last: SharedRule[] = [];
    await inTurns(shared(), pause, ({ object }) => {
      if (kept.has(object.id)) return;
      const { expressions } = compileRule(this.family, object.rule);
      const handle = found.find(object, expressions);
      if (handle === undefined) return;
      handles.set(object.id, handle);
      if (object.at === 'end') last.push(object);
    });
    this.#leaveOutMisplaced(found, last);
  }

  /**
   * Rules for node ports must be the last of their chain: a rule behind them would not see the
   * packets that they take. Where they are not the last, they are added at the end again, and
   * `prune` deletes the old ones.
   */
  #leaveOutMisplaced(found: IptablesObservation, last: readonly SharedRule[]): void {
    const { handles } = this.#inForce;
    const [first] = last;
    if (first === undefined) return;
    const held = found.rulesOf(chainId(first)) ?? [];
    const left = held.filter(({ handle }) => !found.deleted.has(ruleName(first.table, handle)));
    const ends = new Set(left.slice(-last.length).map(({ handle }) => handle));
    for (const { id } of last) {
      if (ends.has(handles.get(id)!)) continue;
      handles.delete(id);
      found.misplaced.add(id);
    }
  }

  async #prune(found: IptablesObservation, writer: BatchWriter, pause: Pause): Promise<number> {
    const context = this.#context(found, writer);
    await prune(context, pause);
    return context.drift.unwanted;
  }

  #context(found: IptablesObservation, { transaction }: BatchWriter): RepairContext {
    const { handles } = this.#inForce;
    return { config: this.#config, found, transaction, handles, drift: noCounts() };
  }
}
