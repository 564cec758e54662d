/**
 * Collects the ops of one batch and puts them into an order that is safe at each step: only its
 * parts about nf_tables are transactions. A frontend appears when all that it needs exists, and
 * what it needed is deleted after it.
 */
import { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { kernelOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { IFA_F } from '../../kernel/route-ops.ts';
import type { ObjectDifference, Writer } from '../backend.ts';
import type { WrittenBatch } from '../mode.ts';
import { EarlyTransaction, inOrder } from '../nft-table/early-transaction.ts';
import type { TableLayout } from '../nft-table/layout.ts';
import { TableWriter } from '../nft-table/writer.ts';
import { addressFields } from '../own-addresses.ts';
import { addressOf, type IPVSShared } from './frontends.ts';
import type { IPVSObjects } from './held.ts';
import { linkName, type SetName, sharedElements } from './layout.ts';
import {
  type PlannedOp,
  type ServiceBatch,
  type ServiceSettings,
  ServiceWriter,
} from './service-writer.ts';

type Out = RecordWriter<typeof kernelOps>;

interface PlannedAddress {
  readonly owner: string;
  readonly bytes: Uint8Array;
}

export class IPVSBatchWriter implements Writer<IPVSObjects>, ServiceBatch {
  readonly first: ElementBuffers<SetName>;
  readonly last: ElementBuffers<SetName>;
  readonly additions: PlannedOp[] = [];
  readonly removals: PlannedOp[] = [];
  readonly services: ServiceWriter;
  /** Writes the part of the first transaction that is not elements. */
  readonly table: TableWriter<SetName>;
  /** Chains and sets that elements lead to: a transaction before the first one. */
  readonly early: EarlyTransaction<SetName>;
  readonly #layout: TableLayout<SetName>;
  readonly #out: Out = new RecordWriter(kernelOps);
  /** Ids of chains and sets. */
  readonly #unused: string[] = [];
  readonly #bound: PlannedAddress[] = [];
  readonly #unbound: PlannedAddress[] = [];
  #link: 'is there' | 'missing' = 'is there';

  constructor(layout: TableLayout<SetName>, settings: ServiceSettings) {
    this.#layout = layout;
    this.first = new ElementBuffers(layout, layout.sets);
    this.last = new ElementBuffers(layout, layout.sets);
    this.services = new ServiceWriter(settings, this);
    this.table = new TableWriter(layout, this.#out, this.first);
    this.early = new EarlyTransaction(layout);
  }

  write(difference: ObjectDifference<IPVSObjects>): void {
    if (difference.of === 'frontend') {
      this.services.write(difference);
      return;
    }
    const { after, id, isThere, owner } = difference;
    if (after === undefined) this.#delete(id, owner);
    else this.#put(after, owner, isThere);
  }

  #put(shared: IPVSShared, owner: string, isThere: boolean): void {
    if ('object' in shared) this.early.put(shared, isThere, this.#firstChanges);
    else if ('set' in shared) {
      this.first.to('add', shared.set, owner).key(sharedElements.keyOf(shared));
    } else this.#bound.push({ owner, bytes: shared.address });
  }

  #delete(id: string, owner: string): void {
    const element = sharedElements.find(id);
    const address = addressOf(id);
    if (element !== undefined) this.last.to('delete', element.set, owner).key(element.key);
    else if (address !== undefined) this.#unbound.push({ owner, bytes: address });
    else this.#unused.push(id);
  }

  addLink(): void {
    this.#link = 'missing';
  }

  get #firstChanges() {
    return { table: this.table, buffers: this.first };
  }

  batch(): WrittenBatch | undefined {
    const early = this.early.finish(this.#firstChanges);
    return inOrder(early, this.#rest());
  }

  #rest(): WrittenBatch | undefined {
    const out = this.#out;
    this.first.write(out);
    for (const write of this.additions) write(out);
    this.#writeLink(out);
    for (const write of this.removals) write(out);
    this.last.write(out);
    this.table.deleteObjects(this.#unused);
    if (out.count === 0) return undefined;
    const buffers = this.first.count + this.last.count;
    const links = this.#link === 'missing' ? 1 : 0;
    const others = this.additions.length + this.removals.length + links;
    const addresses = this.#bound.length + this.#unbound.length;
    return {
      ops: out.finish(),
      writes: this.table.count + buffers + others + addresses,
      culprits: (failure) => out.ownersOf(failure),
    };
  }

  #writeLink(out: Out): void {
    if (this.#link === 'missing') out.write('linkAdd', { link: linkName, type: 'dummy' });
    for (const [kind, planned] of [
      ['addressesAdd', this.#bound],
      ['addressesDelete', this.#unbound],
    ] as const) {
      if (planned.length === 0) continue;
      const bytes = planned.map((one) => one.bytes);
      const fields = addressFields(this.#layout.family, linkName, bytes);
      const ownerOf = (entry = planned.length === 1 ? 0 : -1): string | undefined =>
        planned[entry]?.owner;
      if (kind === 'addressesDelete') out.write(kind, fields, ownerOf);
      else out.write(kind, { ...fields, flags: IFA_F.NODAD }, ownerOf);
    }
  }
}
