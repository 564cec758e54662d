/**
 * How many clients session affinity remembers. Packets fill the maps, so the kernel must be asked.
 */
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { ElementShape, type Reply, unknownIndex } from '../../kernel/ops.ts';
import type { Family } from '../../net/address.ts';
import type { AffinityFill } from '../mode.ts';
import { clientsMax, memoryNameOf } from './affinity-objects.ts';
import { tableName } from './layout.ts';

type SetReply = Extract<Reply, { kind: 'set' }>;

/**
 * Reads all maps of a family, one after the other. Maps that are deleted meanwhile are left out.
 * Rejects with KernelError where the kernel can't be read.
 */
export async function readAffinityFill(kernel: Kernel, of: Family): Promise<AffinityFill[]> {
  const family = NFPROTO[of];
  const { records } = await kernel.dump({ kind: 'setsDump', family, table: tableName });
  const fills: AffinityFill[] = [];
  for (const record of records) {
    const name = record.kind === 'set' ? memoryNameOf(record.set) : undefined;
    if (record.kind !== 'set' || name === undefined) continue;
    const clients = await countOf(kernel, record);
    if (clients === undefined) continue;
    fills.push({ ...name, clients, share: clients / clientsMax });
  }
  return fills;
}

/** Counts the elements where the kernel does not (before 6.16); undefined = the map is deleted. */
async function countOf(kernel: Kernel, record: SetReply): Promise<number | undefined> {
  if (record.count !== unknownIndex) return record.count;
  const { family, table, set, keyLength, dataLength } = record;
  const shape = { shape: ElementShape.data, keyLength, dataLength };
  const request = { kind: 'elementsDump', family, table, set, ...shape } as const;
  const dump = await kernel.dump(request).catch(() => undefined);
  return dump?.records.reduce((sum, one) => sum + (one.kind === 'elements' ? one.count : 0), 0);
}
