/**
 * Tables that belong to this process alone: the kernel refuses changes by others, and leaves them
 * out when others flush the ruleset. They outlive the process, and the next one takes them over.
 */
import { checkTransaction } from '../../kernel/dry-run.ts';
import { isNoAnswer, KernelError } from '../../kernel/errors.ts';
import { refusal } from '../../kernel/failures.ts';
import type { ApplyResult, Kernel, TableName } from '../../kernel/kernel.ts';
import { NFT_TABLE } from '../../kernel/nft/constants.ts';
import { findTable } from '../../kernel/nft/find-table.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { OwnTables } from '../backend.ts';
import { inTable, type TableLayout } from './layout.ts';

/** Applies one transaction. */
type Transact = (ops: Uint8Array) => Promise<ApplyResult>;

const owned = NFT_TABLE.OWNER | NFT_TABLE.PERSIST;

/** Whether a table with these flags can be kept: others make it dormant, or are not known. */
export function areFlagsUsable(flags: number): boolean {
  return (flags & ~owned) === 0;
}

export class TableOwnership implements OwnTables {
  readonly #table: TableName;
  readonly #comment: string;
  readonly #isRequested: boolean;
  /** Whether the kernel supports owned tables; undefined until it was asked. */
  #isKnown: boolean | undefined;
  #isOwned = false;

  constructor(layout: Pick<TableLayout, 'family' | 'table' | 'comment'>, isRequested: boolean) {
    this.#table = inTable(layout);
    this.#comment = layout.comment;
    this.#isRequested = isRequested;
  }

  /** The op that makes the table. */
  get op(): 'tableAdd' | 'tableOwn' {
    return this.#isKnown === true ? 'tableOwn' : 'tableAdd';
  }

  /** The table, if others can change it. */
  get exposed(): readonly TableName[] {
    return this.#isOwned ? [] : [this.#table];
  }

  /** To be called when the table is made, by `op`. */
  made(): void {
    this.#isOwned = this.op === 'tableOwn';
  }

  /**
   * Becomes the owner of the table if its owner is gone, and writes nothing else. A table that
   * never had an owner cannot get one: recreating it would lose its session affinity.
   *
   * @throws KernelError (EBUSY, `isHeld`) while another process owns the table.
   */
  async prepare(kernel: Kernel, transact: Transact): Promise<void> {
    if (this.#isRequested) this.#isKnown ??= await knowsOwnership(kernel, this.#table.family);
    const found = await findTable(kernel, this.#table);
    if (found === undefined) return this.made();
    const { flags, owner } = found;
    if (owner !== 0 && !kernel.isOwn(owner)) {
      throw this.#failure('EBUSY', `another process owns it, at netlink port ${owner}`);
    }
    const isOrphan = this.#isKnown === true && flags === NFT_TABLE.PERSIST;
    if (isOrphan) await this.#claim(transact);
    this.#isOwned = owner !== 0 || isOrphan;
  }

  /** Uses a separate transaction: one that gives a table an owner must not create base chains. */
  async #claim(transact: Transact): Promise<void> {
    const writer = new RecordWriter(nftOps);
    writer.write('tableOwn', { ...this.#table, comment: this.#comment });
    const result = await transact(writer.finish());
    if (result.kind === 'applied') return;
    const { code, message } = result.failures[0]!;
    // Another process has claimed it since.
    throw this.#failure(code === 'EPERM' ? 'EBUSY' : code, message);
  }

  #failure(code: string, words: string): KernelError {
    const { family, table } = this.#table;
    const operation = 'nft.table.own';
    const subject = `table ${familyWord(family)} ${table}`;
    return new KernelError({ operation, subject, code, words, isHeld: code === 'EBUSY' });
  }
}

/** @throws KernelError where the refusal is of no op, or of a lack of memory: it says nothing. */
async function knowsOwnership(kernel: Kernel, family: number): Promise<boolean> {
  const table = { family, table: `fairlead-probe-${process.pid}` };
  const writer = new RecordWriter(nftOps);
  const own = writer.write('tableOwn', { ...table, comment: '' });
  const result = await checkTransaction(kernel, writer.finish());
  if (result.kind === 'applied') return true;
  const [failure] = result.failures;
  if (failure!.op === own && !isNoAnswer(failure!.code)) return false;
  throw refusal('nft.table.own', `table ${familyWord(family)} ${table.table}`, failure!);
}
