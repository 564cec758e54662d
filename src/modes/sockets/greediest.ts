/** Which connections end first where they hold too many bytes in buffers. */
import { blocksOf } from '../../net/block.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';

interface Holder {
  /** The address of its client. */
  readonly client: string;
  /** In its buffers. They may become fewer during the search. */
  readonly bytes: number;
  /** Whether bytes of it have passed lately. */
  readonly wasMoving: boolean;
}

/** An address, or a network: see `blocksOf`. */
interface Block<T> {
  bytes: number;
  /** By `rank`. */
  readonly ranks: T[][];
}

/**
 * Yields connections in the order in which they end, in the end all that hold bytes: those of
 * addresses that hold more than `cap` bytes until these hold no more, then by the same rule those
 * of networks, as one client may own many addresses. When none holds more, the cap falls below what
 * the largest holds.
 */
export async function* greediest<T extends Holder>(
  all: readonly T[],
  cap: number,
  pause: Pause,
): AsyncGenerator<T> {
  let left = all;
  for (let capNow = cap; left.length > 0; ) {
    let most = 0;
    for (const level of [0, 1, 2] as const) {
      const blocks = new Map<string, Block<T>>();
      await inTurns(left, pause, (one) => add(blocks, blocksOf(one.client)[level], one));
      const kept: T[] = [];
      most = 0;
      for (const block of largestFirst(blocks.values(), capNow)) {
        for (const one of block.ranks.flat()) {
          if (one.bytes === 0) continue;
          if (block.bytes <= capNow) kept.push(one);
          else {
            block.bytes -= one.bytes;
            yield one;
          }
        }
        most = Math.max(most, block.bytes);
      }
      left = kept;
    }
    capNow = Math.min(capNow, most) / 2;
  }
}

function add<T extends Holder>(blocks: Map<string, Block<T>>, name: string, one: T): void {
  const block = blocks.get(name) ?? { bytes: 0, ranks: [] };
  blocks.set(name, block);
  block.bytes += one.bytes;
  const rank = rankOf(one);
  block.ranks[rank] ??= [];
  block.ranks[rank].push(one);
}

/** Those within the cap come last, in any order. */
function largestFirst<T>(blocks: Iterable<Block<T>>, cap: number): Block<T>[] {
  const [large, others]: [Block<T>[], Block<T>[]] = [[], []];
  for (const block of blocks) (block.bytes > cap ? large : others).push(block);
  return [...large.sort((a, b) => b.bytes - a.bytes), ...others];
}

/** Those that do not move come first, the largest first; sizes of one power of two are equal. */
function rankOf({ bytes, wasMoving }: Holder): number {
  return Math.clz32(bytes) + (wasMoving ? 32 : 0);
}
