import { applyAll } from '../../kernel/failures.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { findTable } from '../../kernel/nft/find-table.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { families } from '../../net/address.ts';
import type { OwnedObject } from '../mode.ts';
import {
  type Counting,
  frontendParts,
  readCountings,
  refusalCountings,
} from '../nft-table/traffic.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import { readAffinityFill } from './affinity-fill.ts';
import { NFTablesBackend, type NFTablesTypes } from './backend.ts';
import { type SetName, tableComment, tableLayout, tableName } from './layout.ts';
import { dealing, probe } from './probe.ts';

export const nftablesMode = nftablesModeIn(tableName);

/** The mode with another table. */
export function nftablesModeIn(table: string): ProxyMode {
  return {
    name: 'nftables',
    table: { name: table, comment: tableComment },
    hasGeneration: true,
    translates: true,
    hasKubeProxyNames: false,
    usesIPVS: false,
    affinityFill: (kernel, family) => readAffinityFill(kernel, family, table),
    trafficCounts: (kernel, family, pause, found) =>
      readCountings(kernel, tableLayout(family, true, table), countings, pause, found),
    metrics: ['fullSync', 'partialSync', 'nftablesFailures', 'nftablesCleanupFailures'],
    probe,
    dealing,
    planner: (config, environment) =>
      new ModePlanner<NFTablesTypes>({
        family: config.family,
        backend: () => new NFTablesBackend({ ...config, table }),
        environment,
      }),
    owned: (kernel) => owned(kernel, table),
    cleanup: (kernel) => cleanup(kernel, table),
  };
}

const countings: readonly Counting<SetName>[] = [
  { set: 'connections', parts: frontendParts, of: 'connections' },
  { set: 'nodeport-connections', parts: ['protocol', 'port'], of: 'connections' },
  { set: 'endpoint-connections', parts: frontendParts, of: 'endpoint' },
  // After those, so that no connection is read whose answer is not.
  { set: 'endpoint-answers', parts: frontendParts, of: 'answers' },
  { set: 'endpoint-resets', parts: frontendParts, of: 'resets' },
  ...refusalCountings,
];

async function owned(kernel: KernelReader, table: string): Promise<OwnedObject[]> {
  const found: OwnedObject[] = [];
  for (const family of families) {
    const at = { family: NFPROTO[family], table } as const;
    if ((await findTable(kernel, at)) === undefined) continue;
    const chains = await kernel.dump({ kind: 'chainsDump', ...at });
    const sets = await kernel.dump({ kind: 'setsDump', ...at });
    found.push({
      object: `table ${familyWord(at.family)} ${table}`,
      because:
        `only Fairlead's nftables mode uses this name ` +
        `(${chains.records.length} chains, ${sets.records.length} sets and maps)`,
    });
  }
  return found;
}

/** Deletes our tables of both families, in one transaction. */
async function cleanup(kernel: Kernel, table: string): Promise<void> {
  const writer = new RecordWriter(nftOps);
  for (const family of families) {
    const at = { family: NFPROTO[family], table };
    if ((await findTable(kernel, at)) !== undefined) writer.write('tableDelete', at);
  }
  if (writer.count === 0) return;
  await applyAll(kernel, writer.finish(), 'nft.table.delete', `tables ${table}`);
}
