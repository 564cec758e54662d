/**
 * Reads which clients session affinity remembers, and how many. Packets fill the maps, so that only
 * the kernel knows.
 */
import type { KernelReader, ReplyOf } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { readEntries } from '../../kernel/nft/entries.ts';
import { ElementShape, unknownIndex } from '../../kernel/ops.ts';
import { addressBytes, type Family } from '../../net/address.ts';
import { sameBytes } from '../../net/bytes.ts';
import { EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import type { AffinityFill } from '../mode.ts';
import { clientsMax, memoryNameOf } from './affinity-objects.ts';

type SetReply = ReplyOf<'set'>;

/**
 * Reads all maps of a family, one after the other. Omits maps that are deleted during the dump.
 * Rejects with KernelError if the kernel can't be read.
 */
export async function readAffinityFill(
  kernel: KernelReader,
  of: Family,
  table: string,
): Promise<AffinityFill[]> {
  const { records } = await kernel.dump({ kind: 'setsDump', family: NFPROTO[of], table });
  const fills: AffinityFill[] = [];
  for (const record of records) {
    const name = record.kind === 'set' ? memoryNameOf(record.set) : undefined;
    if (record.kind !== 'set' || name === undefined) continue;
    const clients = await countOf(kernel, record);
    if (clients === undefined) continue;
    fills.push({ ...name, share: clients / clientsMax });
  }
  return fills;
}

/** Counts the elements where the kernel does not (before 6.16); undefined = the map is deleted. */
async function countOf(kernel: KernelReader, record: SetReply): Promise<number | undefined> {
  if (record.count !== unknownIndex) return record.count;
  const { family, table, set, keyLength, dataLength } = record;
  const shape = { shape: ElementShape.data, keyLength, dataLength };
  const request = { kind: 'elementsDump', family, table, set, ...shape } as const;
  const dump = await kernel.dump(request).catch(() => undefined);
  return dump?.records.reduce((sum, one) => sum + (one.kind === 'elements' ? one.count : 0), 0);
}

/** The endpoint that the map has for a client: `10.0.0.1:80`; undefined = it has none. */
export async function rememberedEndpoint(
  kernel: KernelReader,
  { family: of, table }: { readonly family: Family; readonly table: string },
  map: string,
  client: Uint8Array,
): Promise<string | undefined> {
  const [family, keyLength, dataLength] = [NFPROTO[of], addressBytes[of], endpointBytes[of]];
  const shape = { shape: ElementShape.data, keyLength, dataLength };
  const at = { family, table, set: map };
  const { records } = await kernel.dump({ kind: 'elementsDump', ...at, ...shape });
  for (const record of records) {
    if (record.kind !== 'elements') continue;
    for (const { key, data } of readEntries(record)) {
      if (sameBytes(key, client)) return EndpointList.from(of, data).text(0);
    }
  }
  return undefined;
}
