import type { KernelReader, ReplyOf, TableName } from '../kernel.ts';

/** Finds the table with this name, whoever made it. Rejects as `Kernel.dump` does. */
export async function findTable(
  kernel: Pick<KernelReader, 'dump'>,
  { family, table }: TableName,
): Promise<ReplyOf<'table'> | undefined> {
  const { records } = await kernel.dump({ kind: 'tablesDump', family });
  const tables = records.filter((one) => one.kind === 'table');
  return tables.find((one) => one.table === table);
}
