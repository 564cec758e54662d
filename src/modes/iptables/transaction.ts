/** Collects the changes of one transaction, and puts them into an order that the kernel accepts. */
import type { GoneRule, KernelFailure } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { CompiledRule } from '../../kernel/xt/compile.ts';
import {
  type BuiltInChain,
  writeBuiltInChain,
  writeTable,
  type XtTable,
} from '../../kernel/xt/tables.ts';
import type { Family } from '../../net/address.ts';
import type { Applied, WrittenBatch } from '../mode.ts';
import { chainId, type TableChain } from './layout.ts';
import type { TableName } from './names.ts';

interface Owned {
  /** Key of the Forwarding to blame for a refusal; empty = none. */
  readonly owner: string;
}

/** Rules in order. The bytes of each are valid until the next one is asked for. */
interface Rules extends Iterable<CompiledRule> {
  readonly length: number;
}

interface Content extends TableChain, Owned {
  readonly rules: Rules;
}

interface NewRule extends TableChain, Owned {
  /** The id under which `batch` reports the handle; undefined = it is not needed. */
  readonly id: string | undefined;
  readonly at: 'head' | 'behind' | 'end';
  readonly compiled: CompiledRule;
}

interface OldRule extends TableChain, Owned {
  readonly id: string | undefined;
  readonly handle: number;
}

export class Transaction {
  readonly #family: Family;
  readonly #tables = new Set<XtTable>();
  readonly #builtIns = new Map<string, TableChain>();
  readonly #contents = new Map<string, Content>();
  readonly #newRules: NewRule[] = [];
  readonly #oldRules: OldRule[] = [];
  readonly #unused = new Map<string, TableChain & Owned>();
  readonly #writer = new RecordWriter(nftOps);
  /** Ops that answer with a handle: op → id. */
  readonly #asked = new Map<number, string>();
  /** Ops that delete a chain: op → `chainId`. */
  readonly #deletions = new Map<number, string>();
  /** Ops that answer with the rule that they delete: op → the rule. */
  readonly #goneRules = new Map<number, OldRule>();
  readonly #busy: Set<string>;
  readonly #countsTraffic: boolean | undefined;

  /** Chains that the kernel refuses to delete are added to `busy`, by `chainId`. */
  constructor(family: Family, busy = new Set<string>(), countsTraffic?: boolean) {
    this.#family = family;
    this.#busy = busy;
    this.#countsTraffic = countsTraffic;
  }

  addTable(table: XtTable): void {
    this.#tables.add(table);
  }

  addBuiltIn(chain: TableChain): void {
    this.#builtIns.set(chainId(chain), chain);
  }

  /** Makes the chain, if it does not exist, and gives it these rules only. */
  putChain(chain: TableChain, rules: Rules, owner: string): void {
    const id = chainId(chain);
    this.#unused.delete(id);
    this.#contents.set(id, { ...chain, rules, owner });
  }

  deleteChain(chain: TableChain, owner: string): void {
    const id = chainId(chain);
    this.#contents.delete(id);
    this.#unused.set(id, { ...chain, owner });
  }

  addRule(rule: NewRule): void {
    this.#newRules.push(rule);
  }

  deleteRule(rule: OldRule): void {
    this.#oldRules.push(rule);
  }

  /** The chains that are written or deleted, by `chainId`. */
  chains(): string[] {
    return [...this.#contents.keys(), ...this.#unused.keys()];
  }

  /** The single rules that are added and deleted. */
  rules(): { readonly come: readonly NewRule[]; readonly gone: readonly OldRule[] } {
    return { come: this.#newRules, gone: this.#oldRules };
  }

  /** How many rules it writes into each table; a table may come several times. */
  rulesWritten(): (readonly [TableName, number])[] {
    const contents = [...this.#contents.values()];
    return [
      ...contents.map(({ table, rules }) => [table, rules.length] as const),
      ...this.#newRules.map(({ table }) => [table, 1] as const),
    ];
  }

  /** Ends the transaction. Returns the batch, or undefined if it has no ops. */
  batch(): WrittenBatch | undefined {
    for (const table of this.#tables) {
      writeTable(this.#writer, this.#family, table);
    }
    for (const { table, chain } of this.#builtIns.values()) {
      const name = chain as BuiltInChain;
      writeBuiltInChain(this.#writer, this.#family, table, name);
    }
    // All chains first: rules of one may jump to any other.
    for (const { owner, ...chain } of this.#contents.values()) {
      this.#writer.write('chainAdd', { ...this.#in(chain), comment: '' }, owner);
    }
    for (const { owner, rules, ...chain } of this.#contents.values()) {
      const inChain = this.#in(chain);
      this.#writer.write('chainFlush', inChain, owner);
      for (const rule of rules) {
        const { expressions, protocol } = rule;
        const fields = { ...inChain, position: 0, protocol, echo: 0, expressions };
        this.#writer.write('xtRuleAdd', fields, owner);
      }
    }
    for (const rule of this.#oldRules) this.#writeDeletion(rule);
    for (const rule of this.#newRules) this.#writeRule(rule);
    this.#writeUnused();
    if (this.#writer.count === 0) return undefined;
    return {
      ops: this.#writer.finish(),
      writes: this.#writer.count,
      culprits: (failure) => this.#culprits(failure),
    };
  }

  /** When the kernel refuses to delete a chain, others refer to it: no Service is to blame. */
  #culprits(failure: KernelFailure): string[] {
    const { op, code } = failure;
    const deleted = op === undefined ? undefined : this.#deletions.get(op);
    if (code !== 'EBUSY' || deleted === undefined) return this.#writer.ownersOf(failure);
    this.#busy.add(deleted);
    return [];
  }

  /**
   * Adds each chain before it deletes it: others may have deleted it, and then the deletion would
   * fail. Rules go before chains, because unused chains may refer to each other.
   */
  #writeUnused(): void {
    const unused = [...this.#unused.values()];
    for (const { owner, ...chain } of unused) {
      this.#writer.write('chainAdd', { ...this.#in(chain), comment: '' }, owner);
    }
    for (const { owner, ...chain } of unused)
      this.#writer.write('chainFlush', this.#in(chain), owner);
    for (const { owner, ...chain } of unused) {
      this.#deletions.set(this.#writer.count, chainId(chain));
      this.#writer.write('chainDelete', this.#in(chain), owner);
    }
  }

  #writeDeletion(rule: OldRule): void {
    const { handle, id, owner } = rule;
    const isCounted = this.#countsTraffic && id !== undefined;
    if (isCounted) this.#goneRules.set(this.#writer.count, rule);
    this.#writer.write('ruleDelete', { ...this.#in(rule), handle, echo: isCounted ? 1 : 0 }, owner);
  }

  #writeRule({ owner, id, at, compiled, ...chain }: NewRule): void {
    const op = this.#writer.count;
    const fields = { ...this.#in(chain), position: 0, echo: 1, ...compiled };
    this.#writer.write(at === 'head' ? 'xtRuleInsert' : 'xtRuleAdd', fields, owner);
    if (id !== undefined) this.#asked.set(op, id);
  }

  /** The handles of new rules that have an id, by that. */
  handlesOf(result: Applied): Map<string, number> {
    const found = new Map<string, number>();
    for (const [op, handle] of result.handles ?? []) {
      const id = this.#asked.get(op);
      if (id !== undefined) found.set(id, handle);
    }
    return found;
  }

  /** The deleted rules that have an id, if traffic is counted. */
  goneOf(result: Applied): [TableChain, GoneRule][] {
    return [...(result.gone ?? [])].flatMap(([op, gone]) => {
      const rule = this.#goneRules.get(op);
      return rule === undefined ? [] : [[rule, gone]];
    });
  }

  #in({ table, chain }: TableChain) {
    return { family: NFPROTO[this.#family], table, chain };
  }
}
