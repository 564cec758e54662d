/** Removes the table of the fast path: packets then meet the rules again. */
import { isAbsence, KernelError } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { nftOps } from '../kernel/ops.ts';
import { RecordWriter } from '../kernel/records.ts';
import { inTable, tableComment, tableText } from './layout.ts';
import { findTable } from './observation.ts';

/** Whether there is a table that we made. A kernel without nf_tables has none. */
export async function isThere(kernel: Kernel): Promise<boolean> {
  try {
    return (await findTable(kernel))?.comment === tableComment;
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
  const result = await kernel.apply(writer.finish());
  if (result.kind === 'applied') return true;
  const { code, message: words } = result.failures[0]!;
  if (code === 'ENOENT') return false;
  throw new KernelError({ operation: 'nft.apply', subject: `table ${tableText}`, code, words });
}
