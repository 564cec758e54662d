import { applyAll } from '../../kernel/failures.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { findTable } from '../../kernel/nft/find-table.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { type Family, families } from '../../net/address.ts';
import type { Pause } from '../../time/pacer.ts';
import type { OwnedObject } from '../mode.ts';
import {
  type Counting,
  frontendParts,
  readCountings,
  refusalCountings,
} from '../nft-table/traffic.ts';
import { ModePlanner } from '../planner.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import type { CountTaker } from '../traffic-counts.ts';
import { readAffinityFill } from './affinity-fill.ts';
import { NFTablesBackend, type NFTablesTypes } from './backend.ts';
import { type SetName, tableComment, tableLayout, tableName } from './layout.ts';
import { dealing, probe } from './probe.ts';

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

const countings: readonly Counting<SetName>[] = [
  { set: 'connections', parts: frontendParts, of: 'connections' },
  { set: 'nodeport-connections', parts: ['protocol', 'port'], of: 'connections' },
  { set: 'endpoint-connections', parts: frontendParts, of: 'endpoint' },
  // After those, so that no connection is read whose answer is not.
  { set: 'endpoint-answers', parts: frontendParts, of: 'answers' },
  { set: 'endpoint-resets', parts: frontendParts, of: 'resets' },
  ...refusalCountings,
];

/** Rejects with KernelError when the kernel can't be read. */
function readTraffic(
  kernel: Kernel,
  family: Family,
  pause: Pause,
  report: CountTaker,
): Promise<void> {
  return readCountings(kernel, tableLayout(family, true), countings, pause, report);
}

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
