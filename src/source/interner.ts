const none: readonly never[] = Object.freeze([]);

/** For a list that stays: all empty ones are one, and none has the spare room that push makes. */
export function lasting<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? none : list.slice();
}

/**
 * Gives equal strings one identity. 44,000 Services name a few port lists and a few thousand
 * namespaces; without this each of them keeps its own copy. Not for what is mostly different: what
 * remembering it takes is as much as a copy.
 *
 * Bounded: when it is full it forgets everything. That costs sharing for a while, never
 * correctness, and a cluster whose names churn for months does not grow it.
 */
export class Interner {
  readonly #strings = new Map<string, string>();
  readonly #lists = new Map<string, readonly string[]>();
  readonly #records = new Map<string, readonly unknown[]>();
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
