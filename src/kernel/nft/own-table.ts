/** Tables that Fairlead makes in addition to those of its modes: their comment says that it did. */
import { isAbsence } from '../errors.ts';
import { failureOf, refusal } from '../failures.ts';
import type { Kernel, TableName } from '../kernel.ts';
import { nftOps } from '../ops.ts';
import { RecordWriter } from '../records.ts';
import { findTable } from './find-table.ts';
import { familyWord } from './words.ts';

export interface OwnTable extends TableName {
  readonly comment: string;
}

/** As it is listed: `inet fairlead-fast-path`. */
export function tableText({ family, table }: TableName): string {
  return `${familyWord(family)} ${table}`;
}

/** Undefined: there is no table of this name. A kernel without nf_tables has none. */
export async function makerOf(
  kernel: Kernel,
  own: OwnTable,
): Promise<'ours' | 'foreign' | undefined> {
  try {
    const found = await findTable(kernel, own);
    return found && (found.comment === own.comment ? 'ours' : 'foreign');
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Resolves to whether there was one that we made. */
export async function removeTable(kernel: Kernel, own: OwnTable): Promise<boolean> {
  if ((await makerOf(kernel, own)) !== 'ours') return false;
  const writer = new RecordWriter(nftOps);
  writer.write('tableDelete', own);
  const failure = await failureOf(kernel, writer.finish());
  if (failure === undefined) return true;
  if (failure.code === 'ENOENT') return false;
  throw refusal('nft.apply', `table ${tableText(own)}`, failure);
}
