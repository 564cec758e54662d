import type { ObservedRule } from './objects.ts';

/** A location packs the page and the offset in it: `(page << offsetBits) | offset`. */
const offsetBits = 20;
const pageBytes = 2 ** offsetBits;

/** The number of rules; for each: its handle (a double), the length of its expressions, these. */
const countBytes = 4;
const handleBytes = 8;
const lengthBytes = 4;

/** The place of a chain without rules. */
const nowhere = -1;

/**
 * Chains of Services with their rules, packed into few buffers. There are hundreds of thousands of
 * them, and an object for each of their rules would be walked by each collection of garbage, which
 * takes longer than a turn of the event loop may.
 */
export class PackedChains {
  readonly #pages: Buffer[] = [];
  /** Where the last page is free. */
  #free = pageBytes;
  readonly #places = new Map<string, number>();

  has(id: string): boolean {
    return this.#places.has(id);
  }

  keys(): Iterable<string> {
    return this.#places.keys();
  }

  /** Adds a chain without rules. */
  add(id: string): void {
    this.#places.set(id, nowhere);
  }

  /** Sets the rules of a chain that was added. They are copied. */
  set(id: string, rules: readonly ObservedRule[]): void {
    const place = this.#allocate(bytesOf(rules));
    this.#places.set(id, place);
    const page = this.#pages[place >>> offsetBits]!;
    let at = page.writeUInt32LE(rules.length, place & (pageBytes - 1));
    for (const { handle, expressions } of rules) {
      at = page.writeDoubleLE(handle, at);
      at = page.writeUInt32LE(expressions.length, at);
      page.set(expressions, at);
      at += expressions.length;
    }
  }

  /** The rules of a chain in order; undefined = there is no such chain. */
  get(id: string): readonly ObservedRule[] | undefined {
    const place = this.#places.get(id);
    if (place === undefined) return undefined;
    if (place === nowhere) return [];
    const page = this.#pages[place >>> offsetBits]!;
    const start = place & (pageBytes - 1);
    const count = page.readUInt32LE(start);
    let at = start + countBytes;
    return Array.from({ length: count }, () => {
      const handle = page.readDoubleLE(at);
      const begin = at + handleBytes + lengthBytes;
      at = begin + page.readUInt32LE(at + handleBytes);
      return { handle, expressions: page.subarray(begin, at) };
    });
  }

  #allocate(bytes: number): number {
    if (this.#free + bytes > pageBytes) {
      // A chain that is larger than a page gets a page of its size.
      this.#pages.push(Buffer.allocUnsafeSlow(Math.max(bytes, pageBytes)));
      this.#free = 0;
    }
    const place = ((this.#pages.length - 1) << offsetBits) | this.#free;
    this.#free += bytes;
    return place;
  }
}

function bytesOf(rules: readonly ObservedRule[]): number {
  let bytes = countBytes;
  for (const { expressions } of rules) bytes += handleBytes + lengthBytes + expressions.length;
  return bytes;
}
