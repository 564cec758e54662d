/** The size of the cache, a power of two. A cluster has some thousands of nodes and namespaces. */
const slots = 8192;
/** Longer texts are not cached, because few are equal. */
const bytesMax = 64;

/**
 * Creates strings from bytes, equal ones only once. A list contains the same nodes, zones,
 * namespaces and ports a hundred thousand times, and finding a string by its bytes takes a third of
 * the time of creating one. Each slot has the last string with its hash.
 */
export class StringCache {
  readonly #slots: string[] = new Array<string>(slots).fill('');

  read(bytes: Buffer, from: number, to: number): string {
    const length = to - from;
    if (length > bytesMax) return bytes.toString('utf8', from, to);
    let hash = length;
    for (let i = from; i < to; i += 1) hash = (Math.imul(hash, 31) + bytes[i]!) | 0;
    const slot = (hash ^ (hash >>> 13)) & (slots - 1);
    const known = this.#slots[slot]!;
    if (known.length === length && equals(known, bytes, from)) return known;
    const text = bytes.toString('utf8', from, to);
    this.#slots[slot] = text;
    return text;
  }
}

/** Whether the bytes are this text in ASCII. Other texts are never found, but created again. */
function equals(text: string, bytes: Buffer, from: number): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const byte = bytes[from + i]!;
    if (byte !== text.charCodeAt(i) || byte >= 0x80) return false;
  }
  return true;
}
