const none: readonly never[] = Object.freeze([]);

/** For a list that stays: all empty ones are one, and none has the spare room that push makes. */
export function lasting<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list.slice();
}

/**
 * Gives equal strings one identity. 240,000 endpoints name three zones and a few thousand
 * namespaces; without this each of them keeps its own copy.
 *
 * Bounded: when it is full it forgets everything. That costs sharing for a while, never
 * correctness, and a cluster whose names churn for months does not grow it.
 */
export class Interner {
  readonly #strings = new Map<string, string>();
  readonly #lists = new Map<string, readonly string[]>();
  readonly #records = new Map<string, readonly unknown[]>();
  readonly #uniform = new Map<number, Uint8Array>();
  readonly #capacity: number;

  constructor(capacity = 100_000) {
    this.#capacity = capacity;
  }

  string(text: string): string {
    const known = this.#strings.get(text);
    if (known !== undefined) return known;
    if (this.#strings.size >= this.#capacity) this.#strings.clear();
    this.#strings.set(text, text);
    return text;
  }

  /** The one frozen list with these strings in this order. */
  list(texts: readonly string[]): readonly string[] {
    const key = JSON.stringify(texts);
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    if (this.#lists.size >= this.#capacity) this.#lists.clear();
    const list = Object.freeze(texts.map((text) => this.string(text)));
    this.#lists.set(key, list);
    return list;
  }

  /**
   * The one array of that length whose bytes are all the same as these; any other as it is. Most
   * slices have nothing to tell between their endpoints, and an array takes 200 bytes at least.
   * Nobody may write to it.
   */
  bytes(bytes: Uint8Array): Uint8Array {
    const first = bytes[0] ?? 0;
    for (const byte of bytes) if (byte !== first) return bytes;
    const key = bytes.length * 256 + first;
    const known = this.#uniform.get(key);
    if (known !== undefined) return known;
    if (this.#uniform.size >= this.#capacity) this.#uniform.clear();
    this.#uniform.set(key, bytes);
    return bytes;
  }

  /** The one list of plain records, all of one type, with this content. */
  records<T extends object>(records: readonly T[]): readonly T[] {
    if (records.length === 0) return none;
    const key = JSON.stringify(records);
    const known = this.#records.get(key);
    if (known !== undefined) return known as readonly T[];
    if (this.#records.size >= this.#capacity) this.#records.clear();
    const list = lasting(records);
    this.#records.set(key, list);
    return list;
  }
}
