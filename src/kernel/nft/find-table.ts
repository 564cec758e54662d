import type { KernelReader, ReplyOf, TableName } from '../kernel.ts';
import { steadyDump, untilSteady } from '../steady.ts';

/** Finds the table with this name, whoever made it. Rejects as `untilSteady` does. */
export async function findTable(
  kernel: Pick<KernelReader, 'dump'>,
  { family, table }: TableName,
): Promise<ReplyOf<'table'> | undefined> {
  const records = await untilSteady(() => steadyDump(kernel, { kind: 'tablesDump', family }));
  const tables = records.filter((one) => one.kind === 'table');
  return tables.find((one) => one.table === table);
}
