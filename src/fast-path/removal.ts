/** Removes the table of the fast path: packets then meet the rules again. */
import { isAbsence } from '../kernel/errors.ts';
import { failureOf, refusal } from '../kernel/failures.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { findTable } from '../kernel/nft/find-table.ts';
import { nftOps } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import { inTable, tableComment, tableText } from './layout.ts';

/** Whether there is a table that we made. A kernel without nf_tables has none. */
export async function isThere(kernel: Kernel): Promise<boolean> {
  try {
    return (await findTable(kernel, inTable))?.comment === tableComment;
  } catch (error) {
    if (isAbsence(error)) return false;
    throw error;
  }
}

/** @returns whether there was a table */
export async function remove(kernel: Kernel): Promise<boolean> {
  if (!(await isThere(kernel))) return false;
  const writer = new RecordWriter(nftOps);
  writer.write('tableDelete', inTable);
  const failure = await failureOf(kernel, writer.finish());
  if (failure === undefined) return true;
  if (failure.code === 'ENOENT') return false;
  throw refusal('nft.apply', `table ${tableText}`, failure);
}
