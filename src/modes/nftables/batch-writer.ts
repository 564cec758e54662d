/**
 * Collects the ops of one batch on our table, in an order that the kernel accepts. It is one
 * transaction, or up to three.
 */
import { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { Difference, ObjectDifference, Writer } from '../backend.ts';
import type { WrittenBatch } from '../mode.ts';
import { EarlyTransaction, inOrder } from '../nft-table/early-transaction.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import type { TableObject } from '../nft-table/shared.ts';
import { TableWriter } from '../nft-table/writer.ts';
import type { NFTablesObjects } from './held.ts';
import { type SetName, type SharedSet, sharedElements } from './layout.ts';

/** What writes the differences of frontends. */
type WriteFrontend = (
  writer: Pick<NFTablesBatchWriter, 'buffers' | 'early' | 'late'>,
  difference: Difference<NFTablesObjects>,
) => void;

export class NFTablesBatchWriter implements Writer<NFTablesObjects> {
  readonly buffers: ElementBuffers<SetName>;
  /** Chains and sets that elements lead to, and whom a new frontend refuses. */
  readonly early: EarlyTransaction<SetName>;
  /** What packets may be about to look up until the rest is in force. */
  readonly late: ElementBuffers<SetName>;
  /** Writes everything but elements: the table, chains, sets, rules. */
  readonly table: TableWriter<SetName>;
  readonly #out = new RecordWriter(nftOps);
  readonly #writeFrontend: WriteFrontend;
  /** The ids of chains and sets to delete. */
  readonly #unused: string[] = [];

  constructor(layout: TableLayout<SetName>, writeFrontend: WriteFrontend) {
    this.buffers = new ElementBuffers(layout, layout.sets);
    this.late = new ElementBuffers(layout, layout.sets);
    this.table = new TableWriter(layout, this.#out, this.buffers);
    this.early = new EarlyTransaction(layout);
    this.#writeFrontend = writeFrontend;
  }

  write(difference: ObjectDifference<NFTablesObjects>): void {
    if (difference.of === 'frontend') this.#writeFrontend(this, difference);
    else if (difference.after === undefined) this.#delete(difference.id);
    else this.#put(difference.after, difference.isThere);
  }

  #put(shared: TableObject<SharedSet>, isThere: boolean): void {
    if ('object' in shared) this.early.put(shared, isThere, this);
    else this.buffers.to('add', shared.set, '').key(sharedElements.keyOf(shared));
  }

  #delete(id: string): void {
    const element = sharedElements.find(id);
    if (element === undefined) this.#unused.push(id);
    else this.buffers.to('delete', element.set, '').key(element.key);
  }

  batch(): WrittenBatch | undefined {
    const early = this.early.finish(this);
    return inOrder(early, inOrder(this.#rest(), inOrder(this.#last(), undefined)));
  }

  /** Few batches have it, so that the others need no writer for it. */
  #last(): Parameters<typeof inOrder>[0] {
    const writes = this.late.count;
    if (writes === 0) return undefined;
    const out = new RecordWriter(nftOps);
    this.late.write(out);
    return { out, writes };
  }

  #rest(): Parameters<typeof inOrder>[0] {
    this.buffers.write(this.#out);
    this.table.deleteObjects(this.#unused);
    const out = this.#out;
    if (out.count === 0) return undefined;
    return { out, writes: this.table.count + this.buffers.count };
  }
}
