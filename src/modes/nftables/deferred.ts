/**
 * The last elements of pools that became shorter. They must be deleted by a later transaction than
 * the one that made them unused. (For chains and sets see `shared-objects.ts`.)
 */
import { UndoMap } from '../undo-map.ts';
import { type FrontendMaps, frontendMaps } from './frontend-maps.ts';
import type { SetName } from './layout.ts';

/** Elements `from` to `to - 1` of a pool that became shorter. They are in the kernel still. */
interface RetiredRange {
  readonly set: SetName;
  /** The frontend. */
  readonly id: string;
  /** The frontend's key; the index follows it in the element's key. */
  readonly key: string;
  readonly from: number;
  readonly to: number;
  /** The first call of `due` sets it, the second takes the range out. */
  readonly aged: boolean;
}

/** Elements that one transaction deletes, in some 50 ms: other transactions wait for it. */
const dueMax = 8000;

export class Deferred {
  readonly #ranges = new UndoMap<RetiredRange>();

  get size(): number {
    return this.#ranges.size;
  }

  /** Must be called when a batch has what was recorded so far. */
  taken(): void {
    this.#ranges.take();
  }

  /** Must be called when the batch is in force in the kernel. */
  confirm(): void {
    this.#ranges.confirmTaken();
  }

  /** Must be called when what was recorded since `confirm` did not reach the kernel. */
  rollback(): void {
    this.#ranges.rollback();
  }

  retire(set: SetName, id: string, key: string, from: number, to: number): void {
    const known = this.#ranges.get(rangeId(set, id));
    const end = Math.max(to, known?.to ?? 0);
    this.#ranges.put(rangeId(set, id), { set, id, key, from, to: end, aged: false });
  }

  /** Forgets the range, because the pool was read from the kernel. Returns what it was. */
  forget(set: SetName, id: string): RetiredRange | undefined {
    if (this.#ranges.size === 0) return undefined;
    const range = this.#ranges.get(rangeId(set, id));
    if (range !== undefined) this.#ranges.put(rangeId(set, id), undefined);
    return range;
  }

  /** Keeps the ranges of those frontends that the kernel still has. */
  keep(isThere: (id: string) => boolean): void {
    for (const [name, { id }] of this.#ranges.entries()) {
      if (!isThere(id)) this.#ranges.put(name, undefined);
    }
  }

  /** The pool grows to `length`. Returns the indexes below it whose elements still exist. */
  revive(set: SetName, id: string, length: number): readonly number[] {
    if (this.#ranges.size === 0) return [];
    const range = this.#ranges.get(rangeId(set, id));
    if (range === undefined || length <= range.from) return [];
    const end = Math.min(length, range.to);
    this.#ranges.put(rangeId(set, id), end < range.to ? { ...range, from: end } : undefined);
    return Array.from({ length: end - range.from }, (_, i) => range.from + i);
  }

  /** How many elements of each set wait to be deleted. */
  *retiredElements(): Generator<[SetName, number]> {
    for (const [, { set, from, to }] of this.#ranges.entries()) yield [set, to - from];
  }

  /**
   * Takes out what was already waiting at the call before this one, up to `dueMax` elements, and ages
   * the others. `confirm` makes that final.
   */
  due(): RetiredRange[] {
    this.#ranges.confirm();
    const due: RetiredRange[] = [];
    const left = new Map<string, RetiredRange | undefined>();
    let room = dueMax;
    for (const [id, range] of this.#ranges.entries()) {
      if (!range.aged) {
        this.#ranges.put(id, { ...range, aged: true });
      } else if (room > 0) {
        const from = Math.max(range.from, range.to - room);
        due.push({ ...range, from });
        left.set(id, from > range.from ? { ...range, to: from } : undefined);
        room -= range.to - from;
      }
    }
    // The others have aged, even if the kernel refuses to delete what is taken out.
    this.#ranges.confirm();
    for (const [id, range] of left) this.#ranges.put(id, range);
    return due;
  }
}

function rangeId(set: SetName, id: string): string {
  return `${set} ${id}`;
}

interface PoolMap {
  readonly set: SetName;
  /** The property of a frontend that holds the pool. */
  readonly pool: 'endpoints' | 'local';
}

const poolMapsByNumber = frontendMaps.map(({ endpoints, localEndpoints }): readonly PoolMap[] => [
  { set: endpoints, pool: 'endpoints' },
  { set: localEndpoints, pool: 'local' },
]);

/** The maps that hold the pools of a frontend. */
export function poolMaps({ number }: FrontendMaps): readonly PoolMap[] {
  return poolMapsByNumber[number]!;
}
