/** A power of two. A cluster has some thousands of nodes and namespaces. */
const slots = 8192;
/** Longer texts are not remembered: few are equal. */
const bytesMax = 64;

/**
 * Makes strings of bytes, and those that come again only once: a list names the same nodes, zones,
 * namespaces and ports a hundred thousand times, and to find a string by its bytes takes a third of
 * the time that it takes to make one. Each slot remembers the last string that fell into it.
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

/** Whether the bytes are this text in ASCII: others are made anew. */
function equals(text: string, bytes: Buffer, from: number): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const byte = bytes[from + i]!;
    if (byte !== text.charCodeAt(i) || byte >= 0x80) return false;
  }
  return true;
}
