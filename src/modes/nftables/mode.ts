import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { printOps } from '../../kernel/nft/print.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { ProxyMode } from '../mode.ts';
import { type SetName, setDefinitions, tableName } from './layout.ts';
import { NFTablesPlanner } from './planner.ts';
import { probe } from './probe.ts';

const definitions = { IPv4: setDefinitions('IPv4'), IPv6: setDefinitions('IPv6') };

export const nftablesMode: ProxyMode = {
  name: 'nftables',
  probe,
  planner: (config, environment) => new NFTablesPlanner(config, environment),
  script: (ops) =>
    printOps(
      ops,
      (family, set) => definitions[family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6'][set as SetName],
    ),
  cleanup,
};

/** Deletes our tables of both families, in one transaction. */
async function cleanup(kernel: Kernel): Promise<void> {
  const writer = new RecordWriter(nftOps);
  for (const family of [NFPROTO.IPv4, NFPROTO.IPv6]) {
    const { records } = await kernel.dump({ kind: 'tablesDump', family });
    const ours = records.some(
      (record) => record.kind === 'table' && record.table === tableName && record.family === family,
    );
    if (ours) writer.write('tableDelete', { family, table: tableName });
  }
  if (writer.count === 0) return;
  const result = await kernel.apply(writer.finish());
  if (result.kind === 'applied') return;
  const { code, message } = result.failures[0]!;
  throw new KernelError({
    operation: 'nft.table.delete',
    subject: `tables ${tableName}`,
    code,
    words: message,
  });
}
