/**
 * What a batch brings into force one transaction before the rest of it.
 *
 * A packet reads once, at its hook, which generation of rules it follows (`nft_do_chain`), but each
 * look-up in a map follows the generation of its own moment. If one transaction made a chain and
 * the element that leads to it, a packet between the two would find the chain as it was in the
 * generation before: empty. It would pass a chain that refuses it.
 */

import { applyLaterPart } from '../../kernel/failures.ts';
import { ElementBuffers } from '../../kernel/nft/element-buffer.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { WrittenBatch } from '../mode.ts';
import type { TableLayout } from './layout.ts';
import type { TableObject } from './shared.ts';
import { TableWriter } from './writer.ts';

/** What one transaction does in a table. */
interface TableChanges<Name extends string> {
  readonly table: TableWriter<Name>;
  readonly buffers: ElementBuffers<Name>;
}

type Write<Name extends string> = (changes: TableChanges<Name>) => void;

interface Waiting<Name extends string> {
  readonly isEarly: boolean;
  readonly write: Write<Name>;
}

/** The ops of a transaction of its own. */
interface Written {
  readonly out: RecordWriter<typeof nftOps>;
  readonly writes: number;
}

export class EarlyTransaction<Name extends string> {
  readonly #layout: TableLayout<Name>;
  readonly #waiting: Waiting<Name>[] = [];
  #isWhole = false;

  constructor(layout: TableLayout<Name>) {
    this.#layout = layout;
  }

  add(write: Write<Name>): void {
    this.#waiting.push({ isEarly: true, write });
  }

  /**
   * The batch stays one transaction: what was to be early needs what the rest of it makes, or the
   * kernel would refuse it while what the rest of it deletes is there.
   */
  keepWhole(): void {
    this.#isWhole = true;
  }

  /**
   * Makes the chain or the set. It is early unless it is always there, or was there before: then
   * packets of the generation before find it whole. A new chain has the kernel validate all verdict
   * maps, once for each transaction (`nft_table_validate`).
   */
  put(
    { laterRank, object }: Extract<TableObject<Name>, { readonly object: unknown }>,
    isThere: boolean,
    rest: TableChanges<Name>,
  ): void {
    if (laterRank === undefined) {
      this.keepWhole();
      rest.table.putObject(object, isThere);
      return;
    }
    const write: Write<Name> = ({ table }) => table.putObject(object, isThere);
    this.#waiting.push({ isEarly: !isThere, write });
  }

  /** Call it before the elements of `rest` are written, which gets all if the batch is whole. */
  finish(rest: TableChanges<Name>): Written | undefined {
    const isWhole = this.#isWhole || rest.table.makesLayout;
    const early = isWhole ? [] : this.#waiting.filter(({ isEarly }) => isEarly);
    for (const one of this.#waiting) if (isWhole || !one.isEarly) one.write(rest);
    if (early.length === 0) return undefined;
    const out = new RecordWriter(nftOps);
    const buffers = new ElementBuffers(this.#layout, this.#layout.sets);
    const table = new TableWriter(this.#layout, out, buffers);
    for (const { write } of early) write({ table, buffers });
    buffers.write(out);
    return { out, writes: table.count + buffers.count };
  }
}

/** The batch of `early` as a transaction, and then `rest`. */
export function inOrder(
  early: Written | undefined,
  rest: WrittenBatch | undefined,
): WrittenBatch | undefined {
  if (early === undefined) return rest;
  const { out, writes } = early;
  const first = out.finish();
  const culprits: WrittenBatch['culprits'] = (failure) => out.ownersOf(failure);
  if (rest === undefined) return { ops: first, writes, culprits };
  return {
    ops: new Uint8Array(Buffer.concat([first, rest.ops])),
    writes: writes + rest.writes,
    culprits: (failure) => {
      const { op } = failure;
      if (op === undefined || op < out.count) return culprits(failure);
      return rest.culprits({ ...failure, op: op - out.count });
    },
    apply: async (kernel) => {
      const made = await kernel.apply(first);
      if (made.kind === 'failed') return made;
      const result = await applyLaterPart(() => rest.apply?.(kernel) ?? kernel.apply(rest.ops));
      if (result.kind === 'applied') return result;
      const failures = result.failures.map(({ op, ...failure }) => {
        return { ...failure, op: op === undefined ? undefined : out.count + op };
      });
      return { ...result, failures };
    },
  };
}
