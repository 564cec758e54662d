import { arrayMax } from '../net/list.ts';
import type { Place } from '../state/types.ts';

const none: readonly never[] = Object.freeze([]);

/**
 * A copy for a list that is kept: without the spare capacity of push, and one object for empty
 * lists.
 */
export function lasting<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list.slice();
}

/** Approximate bytes of an entry without its text. */
const entryBytes = 100;

/**
 * Makes equal strings one object, and equal short lists: of long ones few are equal, and one takes
 * the memory of thousands. 44,000 Services have few port lists and a few thousand namespaces:
 * without this, each would keep its own copy. It is not for strings that are mostly different,
 * because an entry costs as much as a copy. It is bounded in bytes: when it is full, it drops
 * everything, and less is shared for a while, so that names may change for months.
 */
export class Interner {
  readonly #strings = new Map<string, string>();
  readonly #lists = new Map<string, readonly unknown[]>();
  /** By node, which is in one zone; without a node, by zone. */
  readonly #places = new Map<string, Place>();
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax = 2 * 1024 * 1024) {
    this.#bytesMax = bytesMax;
  }

  /** Approximate bytes of the entries. */
  get bytes(): number {
    return this.#bytes;
  }

  string(text: string): string {
    const known = this.#strings.get(text);
    if (known !== undefined) return known;
    this.#makeRoom(text.length);
    this.#strings.set(text, text);
    return text;
  }

  /** The one frozen list with these strings in this order, unless it is long. */
  list(texts: readonly string[]): readonly string[] {
    return this.#one(texts, () => Object.freeze(texts.map((text) => this.string(text))));
  }

  /** The one list of plain records, all of one type, with this content, unless it is long. */
  records<T extends object>(records: readonly T[]): readonly T[] {
    return records.length === 0 ? none : this.#one(records, () => lasting(records));
  }

  #one<T>(list: readonly T[], make: () => readonly T[]): readonly T[] {
    if (list.length > arrayMax) return lasting(list);
    const key = JSON.stringify(list);
    const known = this.#lists.get(key) as readonly T[] | undefined;
    if (known !== undefined) return known;
    this.#makeRoom(2 * key.length);
    const made = make();
    this.#lists.set(key, made);
    return made;
  }

  /** The one record of this node in this zone. */
  place(node: string, zone: string): Place {
    const known = this.#places.get(node || zone);
    if (known?.zone === zone && known.node === node) return known;
    this.#makeRoom(node.length);
    const place = { node: this.string(node), zone: this.string(zone) };
    this.#places.set(place.node || place.zone, place);
    return place;
  }

  #makeRoom(bytes: number): void {
    this.#bytes += bytes + entryBytes;
    if (this.#bytes <= this.#bytesMax) return;
    this.#strings.clear();
    this.#lists.clear();
    this.#places.clear();
    this.#bytes = bytes + entryBytes;
  }
}
