/**
 * Tables that belong to this process alone: the kernel refuses changes by others, and leaves them
 * out when others flush the ruleset. They outlive the process, and the next one takes them over.
 */
import { KernelError } from '../../kernel/errors.ts';
import type { ApplyResult, Kernel, TableName } from '../../kernel/kernel.ts';
import { NFPROTO, NFT_TABLE } from '../../kernel/nft/constants.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { Tables, Types } from '../backend.ts';
import { inTable, type TableLayout } from './layout.ts';
import { rankOf } from './objects.ts';

/** Applies one transaction. */
type Transact = (ops: Uint8Array) => Promise<ApplyResult>;

const owned = NFT_TABLE.OWNER | NFT_TABLE.PERSIST;

/** Whether a table with these flags can be kept: others make it dormant, or are not known. */
export function areFlagsUsable(flags: number): boolean {
  return (flags & ~owned) === 0;
}

export class TableOwnership {
  readonly #table: TableName;
  readonly #comment: string;
  readonly #isWanted: boolean;
  /** Whether the kernel knows such tables; undefined = it was not asked. */
  #isKnown: boolean | undefined;
  #isOwned = false;

  constructor(layout: Pick<TableLayout, 'family' | 'table' | 'comment'>, isWanted = false) {
    this.#table = inTable(layout);
    this.#comment = layout.comment;
    this.#isWanted = isWanted;
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
   * Becomes the owner of the table when its owner is gone, and writes nothing else. A table that
   * never had an owner cannot get one: it would have to be made anew, without what it remembers of
   * clients. Throws KernelError (EBUSY, `isHeld`) while another process owns the table.
   */
  async prepare(kernel: Kernel, transact: Transact): Promise<void> {
    if (this.#isWanted) this.#isKnown ??= await knowsOwnership(kernel, this.#table.family);
    const { family, table } = this.#table;
    const { records } = await kernel.dump({ kind: 'tablesDump', family });
    const found = records.find((one) => one.kind === 'table' && one.table === table);
    if (found?.kind !== 'table') return this.made();
    const { flags, owner } = found;
    if (owner !== 0 && !kernel.isOwn(owner)) {
      throw this.#failure('EBUSY', `another process owns it, at netlink port ${owner}`);
    }
    const isOrphan = this.#isKnown === true && flags === NFT_TABLE.PERSIST;
    if (isOrphan) await this.#claim(transact);
    this.#isOwned = owner !== 0 || isOrphan;
  }

  /** In a transaction of its own: one that gives a table an owner must not make base chains. */
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
    const subject = `table ${family === NFPROTO.IPv4 ? 'ip' : 'ip6'} ${table}`;
    return new KernelError({ operation, subject, code, words, isHeld: code === 'EBUSY' });
  }
}

/** The `tables` of a backend that has one table of its own. */
export function tablesOf<T extends Types>(
  ownership: TableOwnership,
  more: Omit<Tables<T>, 'exposed' | 'prepare' | 'rankOf'> = {},
): Tables<T> {
  return {
    get exposed(): readonly TableName[] {
      return ownership.exposed;
    },
    prepare: (kernel, transact) => ownership.prepare(kernel, transact),
    rankOf,
    ...more,
  };
}

/** Asks the kernel by a transaction whose last op must fail, so that nothing changes. */
async function knowsOwnership(kernel: Kernel, family: number): Promise<boolean> {
  const table = { family, table: `fairlead-probe-${process.pid}` };
  const writer = new RecordWriter(nftOps);
  const own = writer.write('tableOwn', { ...table, comment: '' });
  writer.write('chainDelete', { ...table, chain: 'never-made' });
  const result = await kernel.apply(writer.finish());
  return result.kind === 'failed' && result.failures.every(({ op }) => op !== own);
}
