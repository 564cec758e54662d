/** What the kernel holds in sets that do not belong to a table's layout. */
import { isKernelError } from '../../kernel/errors.ts';
import { NFT_SET } from '../../kernel/nft/constants.ts';
import { ElementShape, type Reply, type Request } from '../../kernel/ops.ts';

/**
 * Returns the content of a set of ranges, as `elements` records have it. Returns undefined if the
 * set is of another kind, has elements that we never write, or was deleted during the dump.
 */
export async function contentOf(
  { family, flags, keyLength, set, table }: Extract<Reply, { kind: 'set' }>,
  dump: (request: Request) => Promise<readonly Reply[]>,
): Promise<Uint8Array | undefined> {
  if (flags !== NFT_SET.INTERVAL) return undefined;
  const request = { family, table, set, shape: ElementShape.flags, keyLength, dataLength: 0 };
  try {
    const records = await dump({ kind: 'elementsDump', ...request });
    const found = records.flatMap((one) => (one.kind === 'elements' ? [one] : []));
    if (found.some(({ strange }) => strange > 0)) return undefined;
    const parts = found.map(({ entries }) => entries);
    return parts.length === 1 ? parts[0] : Buffer.concat(parts);
  } catch (error) {
    if (isKernelError(error, 'ENOENT')) return undefined;
    throw error;
  }
}
