/** Elements of sets of other programs, as far as rules look up destinations in them. */
import type { KernelReader, ReplyOf } from '../../../kernel/kernel.ts';
import { NFT_SET, NFT_SET_ELEM_INTERVAL_END } from '../../../kernel/nft/constants.ts';
import { readEntries } from '../../../kernel/nft/entries.ts';
import { ElementShape } from '../../../kernel/ops.ts';

export interface Members {
  readonly keyLength: number;
  /** The first few keys; none of an interval. */
  readonly singles: readonly Uint8Array[];
  has(key: Uint8Array): boolean;
}

/** Larger sets are not read. */
const elementsMax = 4096;
/** Of a larger set, no single senders are judged. */
const singlesMax = 16;
/** What a kernel says that does not count elements (before 6.16). */
const uncounted = 0xffffffff;

type SetRecord = ReplyOf<'set'>;

/**
 * Undefined: it has too many elements, or keys of a form that is not read. `note` gets all that is
 * read. Rejects with KernelError.
 */
export async function membersOf(
  kernel: KernelReader,
  set: SetRecord,
  note: (bytes: Uint8Array) => void,
): Promise<Members | undefined> {
  const { count, family, flags, keyLength, size, table } = set;
  const isBounded = isAnonymous(flags) || inBounds(size);
  const isSmall = count === uncounted ? isBounded : count <= elementsMax;
  const unread = NFT_SET.MAP | NFT_SET.CONCAT | NFT_SET.OBJECT | NFT_SET.TIMEOUT | NFT_SET.EVAL;
  if (!isSmall || (flags & unread) !== 0) return undefined;
  const edges: { readonly key: Uint8Array; readonly isEnd: boolean }[] = [];
  let isWhole = true;
  const shape = ElementShape.flags;
  await kernel.dump(
    { kind: 'elementsDump', family, table, set: set.set, shape, keyLength, dataLength: 0 },
    (record) => {
      if (record.kind !== 'elements') return;
      if (edges.length > 2 * elementsMax) isWhole = false;
      if (!isWhole) return;
      note(record.entries);
      for (const { flags: of, key } of readEntries(record)) {
        edges.push({ key: key.slice(), isEnd: (of & NFT_SET_ELEM_INTERVAL_END) !== 0 });
      }
    },
  );
  if (!isWhole) return undefined;
  return (flags & NFT_SET.INTERVAL) === 0 ? single(keyLength, edges) : intervals(keyLength, edges);
}

function isAnonymous(flags: number): boolean {
  return (flags & NFT_SET.ANONYMOUS) !== 0;
}

function inBounds(size: number): boolean {
  return size > 0 && size <= elementsMax;
}

type Edge = { readonly key: Uint8Array; readonly isEnd: boolean };

function single(keyLength: number, edges: readonly Edge[]): Members {
  const keys = new Set(edges.map(({ key }) => textOf(key)));
  const singles = edges.slice(0, singlesMax).map(({ key }) => key);
  return { keyLength, singles, has: (key) => keys.has(textOf(key)) };
}

function textOf(key: Uint8Array): string {
  return Buffer.from(key).toString('latin1');
}

/** An interval begins at its key, and ends before the key of the next edge. */
function intervals(keyLength: number, edges: readonly Edge[]): Members {
  const sorted = [...edges].sort(
    (a, b) => Buffer.compare(a.key, b.key) || Number(b.isEnd) - Number(a.isEnd),
  );
  return {
    keyLength,
    singles: [],
    has(key) {
      let [low, high] = [0, sorted.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (Buffer.compare(sorted[middle]!.key, key) <= 0) low = middle + 1;
        else high = middle;
      }
      return low > 0 && !sorted[low - 1]!.isEnd;
    },
  };
}
