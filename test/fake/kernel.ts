/**
 * An nf_tables in memory for tests: applies a buffer of ops as one transaction and refuses what the
 * kernel refuses, with the same errno, op and entry (test/conformance proves it against a real
 * one). It can be made to fail, to lose its answer, to be slow, and to be edited by somebody else.
 */
import type { ApplyResult, DumpResult, Kernel, KernelFailure } from '../../src/kernel/kernel.ts';
import { type NftOp, nftOps, type Request } from '../../src/kernel/ops.ts';
import { RecordError, readRecords } from '../../src/kernel/records.ts';
import { answer } from './nft-dump.ts';
import { unpack } from './nft-entries.ts';
import { evaluate, type Outcome, type Packet } from './nft-packet.ts';
import { type NftSet, type Table, type Tables, tableId } from './nft-state.ts';
import { elementText, elementTexts, rulesetText } from './nft-text.ts';
import { Transaction } from './nft-transaction.ts';
import { validate } from './nft-validate.ts';
import { Refusal } from './refusal.ts';

/** A refusal that a test asks for. */
export interface Fault {
  /** Symbolic errno. */
  readonly code: string;
  /** The op to blame; without it and the others, the whole batch fails for no reason given. */
  readonly op?: number;
  /** Only a batch that adds or deletes elements of this set fails, and the first such op. */
  readonly forSet?: string;
  /** Only an element whose text begins so, e.g. `10.96.0.1 . tcp . 80`. */
  readonly forKey?: string;
  /** How many batches fail; Infinity = until `heal`. Default 1. */
  readonly times?: number;
}

type SetOp = Extract<NftOp, { kind: 'elementsAdd' | 'elementsDelete' }>;

export class FakeKernel implements Kernel {
  readonly #tables: Tables = new Map();
  #generation = 1;
  #handle = 0;
  #faults: { readonly fault: Fault; left: number }[] = [];
  #interrupted = 0;
  #unknownOutcomes = 0;

  /** Ops (of elements ops: entries) applied so far, without those of `foreign`. */
  writes = 0;
  /** Transactions that were committed so far, without those of `foreign`. */
  commits = 0;
  /** Every apply and dump takes this long. */
  delayMs = 0;

  async apply(ops: Uint8Array): Promise<ApplyResult> {
    // What a caller changes in the buffer while the batch is under way must not matter to it.
    await this.#delay();
    return this.applyNow(ops);
  }

  /** `apply` without its delay. */
  applyNow(buffer: Uint8Array): ApplyResult {
    const ops = [...readRecords(nftOps, buffer)];
    const injected = this.#injected(ops);
    if (injected !== undefined) return { kind: 'failed', failures: [injected], partly: false };
    const failures = this.#commit(ops);
    if (failures.length > 0) return { kind: 'failed', failures, partly: false };
    this.commits += 1;
    this.writes += ops.reduce((sum, op) => sum + writesOf(op), 0);
    if (this.#unknownOutcomes === 0) return { kind: 'applied' };
    this.#unknownOutcomes -= 1;
    const code = 'ENOBUFS';
    const { message } = new Refusal(code);
    const failure = { op: undefined, entry: undefined, code, message };
    return { kind: 'failed', failures: [failure], partly: false };
  }

  async dump(request: Request): Promise<DumpResult> {
    await this.#delay();
    const records = answer(this.#tables, this.#generation, request);
    if (this.#interrupted === 0) return { records, consistent: true };
    this.#interrupted -= 1;
    return { records: records.slice(0, records.length / 2), consistent: false };
  }

  async generation(): Promise<number> {
    return this.#generation;
  }

  close(): void {}

  /** Makes the next batch that fits the description fail; nothing of it is applied. */
  failNext(fault: Fault): void {
    this.#faults.push({ fault, left: fault.times ?? 1 });
  }

  /** Ends all faults. */
  heal(): void {
    this.#faults = [];
    this.#interrupted = 0;
    this.#unknownOutcomes = 0;
  }

  /** The next batch is applied, but reported as failed: its acknowledgement is lost. */
  unknownOutcome(): void {
    this.#unknownOutcomes += 1;
  }

  /** The next dumps are incomplete, and say so. */
  interruptDumps(count = 1): void {
    this.#interrupted = count;
  }

  /** What another program does. Throws when it is refused. */
  foreign(ops: Uint8Array): void {
    const [failure] = this.#commit([...readRecords(nftOps, ops)]);
    if (failure !== undefined) throw new Error(`refused: ${JSON.stringify(failure)}`);
  }

  /** Everything, as text that is the same for the same state. */
  ruleset(): string {
    return rulesetText(this.#tables);
  }

  /** The elements of a set, as sorted text; empty when there is no such set. */
  elements(family: number, table: string, set: string): string[] {
    const known = this.#tables.get(tableId(family, table))?.sets.get(set);
    return known === undefined ? [] : elementTexts(known);
  }

  /** Undefined when there is none. Not to be changed. */
  table(family: number, name: string): Table | undefined {
    return this.#tables.get(tableId(family, name));
  }

  /** What becomes of the first packet of a connection. */
  evaluate(packet: Packet): Outcome {
    return evaluate(this.#tables, packet);
  }

  async #delay(): Promise<void> {
    if (this.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.delayMs));
  }

  /** Applies all, or nothing and returns why. */
  #commit(ops: readonly NftOp[]): KernelFailure[] {
    const [first, ...rest] = ops;
    if (first?.kind === 'generationExpect' && first.generation !== this.#generation) {
      // The kernel refuses the message that begins the batch, which is no op.
      return [failureOf(undefined, new Refusal('ERESTART'))];
    }
    const skipped = first?.kind === 'generationExpect' ? 1 : 0;
    const todo = skipped === 1 ? rest : ops;
    const { transaction, failures } = this.#run(todo, skipped, 'at the end');
    if (failures.length === 0) {
      if (transaction.changed) this.#generation += 1;
      return [];
    }
    transaction.rollback();
    if (failures[0]?.op !== undefined) return failures;
    // Like the kernel, which replays a batch that is not valid as a whole to find the culprit.
    const replay = this.#run(todo, skipped, 'after each op');
    replay.transaction.rollback();
    return replay.failures;
  }

  /** Goes on after a refused op, like the kernel. A failure of validation at the end has no op. */
  #run(ops: readonly NftOp[], skipped: number, validated: 'at the end' | 'after each op') {
    const transaction = new Transaction(this.#tables, () => {
      this.#handle += 1;
      return this.#handle;
    });
    const failures: KernelFailure[] = [];
    const attempt = (op: number | undefined, act: () => void): void => {
      try {
        act();
      } catch (error) {
        failures.push(failureOf(op, error));
      }
    };
    const validateAll = (): void => {
      for (const table of transaction.unchecked) validate(table);
    };
    for (const [index, op] of ops.entries()) {
      attempt(index + skipped, () => {
        transaction.run(op);
        if (validated === 'after each op') validateAll();
      });
    }
    if (failures.length === 0) attempt(undefined, validateAll);
    return { transaction, failures };
  }

  #injected(ops: readonly NftOp[]): KernelFailure | undefined {
    for (const entry of this.#faults) {
      const where = this.#match(entry.fault, ops);
      if (where === undefined) continue;
      entry.left -= 1;
      this.#faults = this.#faults.filter(({ left }) => left > 0);
      const { code } = entry.fault;
      return { ...where, code, message: new Refusal(code).message };
    }
    return undefined;
  }

  /** Where in the batch the fault strikes; undefined = it does not. */
  #match(
    { op, forSet, forKey }: Fault,
    ops: readonly NftOp[],
  ): Pick<KernelFailure, 'op' | 'entry'> | undefined {
    if (forSet === undefined && forKey === undefined) return { op, entry: undefined };
    for (const [index, candidate] of ops.entries()) {
      if (candidate.kind !== 'elementsAdd' && candidate.kind !== 'elementsDelete') continue;
      if (forSet !== undefined && candidate.set !== forSet) continue;
      if (forKey === undefined) return { op: index, entry: undefined };
      const fields = this.#setFields(candidate, ops);
      if (fields === undefined) continue;
      const entry = unpack(candidate).findIndex((e) => elementText(fields, e).startsWith(forKey));
      if (entry >= 0) return { op: index, entry };
    }
    return undefined;
  }

  /** The set that an elements op is for, which the same batch may make. */
  #setFields({ family, table, set }: SetOp, ops: readonly NftOp[]): NftSet['fields'] | undefined {
    const isIt = (op: NftOp): op is Extract<NftOp, { kind: 'setAdd' }> =>
      op.kind === 'setAdd' && op.family === family && op.table === table && op.set === set;
    return this.table(family, table)?.sets.get(set)?.fields ?? ops.find(isIt);
  }
}

function failureOf(op: number | undefined, error: unknown): KernelFailure {
  if (error instanceof Refusal) {
    return { op, entry: error.entry, code: error.code, message: error.message };
  }
  if (!(error instanceof RecordError)) throw error;
  return { op, entry: undefined, code: 'EINVAL', message: error.message };
}

function writesOf(op: NftOp): number {
  switch (op.kind) {
    case 'generationExpect':
      return 0;
    case 'elementsAdd':
    case 'elementsDelete':
      return op.count;
    default:
      return 1;
  }
}
