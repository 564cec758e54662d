/** Writes the differences of chains and shared rules into one transaction. */
import type { GoneRule } from '../../kernel/kernel.ts';
import { compileRule } from '../../kernel/xt/compile.ts';
import {
  type Counts,
  countDifference,
  type Difference,
  type ObjectDifference,
  type Writer,
} from '../backend.ts';
import type { Applied, WrittenBatch } from '../mode.ts';
import { chainId, type IptablesConfig, type TableChain } from './layout.ts';
import type { TableName } from './names.ts';
import { chainAt, type HeldChain, type IptablesObjects, type SharedRule } from './objects.ts';
import { ruleName } from './observation.ts';
import { Transaction } from './transaction.ts';

/** What outlives batches. */
export interface BatchMemory {
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

export class IptablesBatchWriter implements Writer<IptablesObjects> {
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
      if (difference.from === 'kernel') this.#deleteHeld(difference.before!, difference.drift);
      else if (before !== undefined) this.transaction.deleteChain(before.chain, owner);
      return;
    }
    if (before !== undefined && after.hasRulesOf(before)) return;
    this.transaction.putChain(after.chain, after, owner);
    if (difference.from === 'kernel') countDifference(difference);
  }

  /** A reference from a map is not seen: then the deletion fails, and an audit tries again. */
  #deleteHeld({ chain, isReferred, rules }: HeldChain, drift: Counts): void {
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
