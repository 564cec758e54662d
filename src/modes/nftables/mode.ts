import { applyAll } from '../../kernel/failures.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { findTable } from '../../kernel/nft/find-table.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { families } from '../../net/address.ts';
import type { OwnedObject } from '../mode.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import { readAffinityFill } from './affinity-fill.ts';
import { NFTablesBackend, type NFTablesTypes } from './backend.ts';
import { tableComment, tableName } from './layout.ts';
import { dealing, probe } from './probe.ts';
import { readTraffic } from './traffic.ts';

export const nftablesMode: ProxyMode = {
  name: 'nftables',
  table: { name: tableName, comment: tableComment },
  hasGeneration: true,
  translates: true,
  hasKubeProxyNames: false,
  usesIPVS: false,
  affinityFill: readAffinityFill,
  trafficCounts: readTraffic,
  metrics: ['fullSync', 'partialSync', 'nftablesFailures', 'nftablesCleanupFailures'],
  probe,
  dealing,
  planner: (config, environment) =>
    new ModePlanner<NFTablesTypes>({
      family: config.family,
      backend: () => new NFTablesBackend(config),
      environment,
    }),
  owned,
  cleanup,
};

async function owned(kernel: KernelReader): Promise<OwnedObject[]> {
  const found: OwnedObject[] = [];
  for (const family of families) {
    const at = { family: NFPROTO[family], table: tableName } as const;
    if ((await findTable(kernel, at)) === undefined) continue;
    const chains = await kernel.dump({ kind: 'chainsDump', ...at });
    const sets = await kernel.dump({ kind: 'setsDump', ...at });
    found.push({
      object: `table ${familyWord(at.family)} ${tableName}`,
      because:
        `only Fairlead's nftables mode uses this name ` +
        `(${chains.records.length} chains, ${sets.records.length} sets and maps)`,
    });
  }
  return found;
}

/** Deletes our tables of both families, in one transaction. */
async function cleanup(kernel: Kernel): Promise<void> {
  const writer = new RecordWriter(nftOps);
  for (const family of families) {
    const at = { family: NFPROTO[family], table: tableName };
    if ((await findTable(kernel, at)) !== undefined) writer.write('tableDelete', at);
  }
  if (writer.count === 0) return;
  await applyAll(kernel, writer.finish(), 'nft.table.delete', `tables ${tableName}`);
}
