/**
 * Lists that are read in order or by index. A short one is an array; a long one is kept in columns
 * (`Columns`), because an object for each item takes ten times as much memory as what it says.
 */
export interface List<T> extends Iterable<T> {
  readonly length: number;
  at(index: number): T | undefined;
  some(test: (item: T) => boolean): boolean;
  filter(test: (item: T) => boolean): T[];
  map<U>(of: (item: T) => U): U[];
  slice(from?: number, to?: number): T[];
}

/** Lists up to this length are arrays: most are short, and equal ones can be one object. */
export const arrayMax = 16;

/** How an item is kept. */
export interface ColumnForm<T> {
  /** Bytes of each item. */
  readonly width: number;
  /** The item whose bytes begin at character `at`. `text`: of all items, for what has no width. */
  read(bytes: string, at: number, text: string): T;
}

/**
 * An immutable list of items in packed form. `bytes` has a character for each byte (Latin-1): a
 * string takes less than a typed array, and can be compared with `===`.
 */
export class Columns<T> implements List<T> {
  readonly bytes: string;
  readonly text: string;
  readonly #form: ColumnForm<T>;

  constructor(form: ColumnForm<T>, bytes: Uint8Array, text = '') {
    this.#form = form;
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
    this.text = text;
  }

  get length(): number {
    return this.bytes.length / this.#form.width;
  }

  at(index: number): T | undefined {
    const { width } = this.#form;
    const at = index * width;
    if (at < 0 || at >= this.bytes.length) return undefined;
    return this.#form.read(this.bytes, at, this.text);
  }

  *[Symbol.iterator](): Generator<T> {
    for (let i = 0; i < this.length; i += 1) yield this.at(i)!;
  }

  some(test: (item: T) => boolean): boolean {
    for (const item of this) if (test(item)) return true;
    return false;
  }

  filter(test: (item: T) => boolean): T[] {
    return [...this].filter(test);
  }

  map<U>(of: (item: T) => U): U[] {
    return Array.from(this, of);
  }

  slice(from = 0, to = this.length): T[] {
    const items: T[] = [];
    for (let i = from; i < Math.min(to, this.length); i += 1) items.push(this.at(i)!);
    return items;
  }

  /** Same items in the same order. */
  equals(other: Columns<T>): boolean {
    return this.bytes === other.bytes && this.text === other.text;
  }
}

/** Whether two lists have the same items in the same order. */
export function sameList<T>(a: List<T>, b: List<T>, same: (x: T, y: T) => boolean): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  if (a instanceof Columns && b instanceof Columns) return a.equals(b);
  for (let i = 0; i < a.length; i += 1) if (!same(a.at(i)!, b.at(i)!)) return false;
  return true;
}

/** The number of `length` bytes, the first one highest. */
export function numberAt(bytes: string, at: number, length: number): number {
  let value = 0;
  for (let i = 0; i < length; i += 1) value = value * 256 + bytes.charCodeAt(at + i);
  return value;
}

/** The longest part that `copyOfPart` copies. */
export const partMax = 255;

/** V8 copies parts that are shorter than this. */
const viewMin = 13;

/**
 * A copy of a part of a text, of up to `partMax` characters. V8 makes a part a view of the whole,
 * and one name that is kept would keep those of 20,000 ports.
 */
export function copyOfPart(text: string, from: number, to: number): string {
  if (to - from < viewMin) return text.slice(from, to);
  const codes: number[] = [];
  for (let i = from; i < to; i += 1) codes.push(text.charCodeAt(i));
  return String.fromCharCode(...codes);
}
