import { Chunks, type Framed } from './chunks.ts';
import { StreamError } from './errors.ts';

const newline = 0x0a;
const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const colon = 0x3a;
const comma = 0x2c;

/** The most bytes of a list without its items. */
const envelopeBytesMax = 1024 * 1024;

/**
 * Splits a watch stream into lines, as bytes: a chunk may end inside a UTF-8 character. A line
 * longer than `bytesMax` is not kept in memory.
 */
export class LineFramer {
  readonly #chunks: Chunks;

  constructor(bytesMax: number) {
    this.#chunks = new Chunks(bytesMax);
  }

  /** The lines that end in this chunk, without newlines; empty ones are left out. */
  *push(chunk: Buffer): Generator<Framed> {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(newline, start);
      if (end < 0) break;
      const line = this.#chunks.end(chunk.subarray(start, end));
      start = end + 1;
      if (line.length > 0) yield line;
    }
    this.#chunks.add(chunk.subarray(start));
  }

  /** Bytes of an incomplete line. */
  get pendingBytes(): number {
    return this.#chunks.length;
  }
}

/**
 * Splits the body of a list, `{"metadata":{…},"items":[{…},{…}]}`, into its items, so that each can
 * be parsed separately: one JSON.parse of 86 MB of EndpointSlices takes 577 ms. It only finds the
 * ends of objects; JSON.parse checks their syntax.
 */
export class ListSplitter {
  readonly #item: Chunks;
  readonly #envelope = new Chunks(envelopeBytesMax);
  /** Open braces and brackets: 1 in the list, 2 between its items, more inside one. */
  #depth = 0;
  #inString = false;
  #escaped = false;
  #inItems = false;
  /** The last string at depth 1, when it may be the key `items`, and colons after it. */
  #key = '';
  #itemsSeen = false;

  constructor(itemBytesMax: number) {
    this.#item = new Chunks(itemBytesMax);
  }

  /** The items that end in this chunk. Throws a StreamError if this is not a list. */
  *push(chunk: Buffer): Generator<Framed> {
    /** Where the item begins, or what is around the items. */
    let start = 0;
    let depth = this.#depth;
    let inItems = this.#inItems;
    let at = this.#inString ? this.#throughString(chunk, 0, depth) + 1 : 0;
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at]!;
      if (byte === quote && !(inItems && depth === 2)) {
        if (depth === 1) this.#key = '';
        at = this.#throughString(chunk, at + 1, depth);
      } else if (byte === openBrace || byte === openBracket) {
        depth += 1;
        if (inItems && depth === 3) {
          if (byte === openBracket) throw notAnObject();
          start = at;
        } else if (depth === 2 && byte === openBracket && this.#key === 'items:') {
          this.#beginItems(chunk.subarray(start, at + 1));
          inItems = true;
        }
      } else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1;
        if (!inItems || depth > 2) continue;
        if (depth === 2) yield this.#item.end(chunk.subarray(start, at + 1));
        inItems = depth === 2;
        start = at;
      } else if (inItems) {
        if (depth === 2 && byte !== comma && byte > 0x20) throw notAnObject();
      } else if (depth === 1) {
        // One more character than the key has, so that `items::` is not the key.
        if (byte === colon && this.#key.length <= 'items:'.length) this.#key += ':';
        if (byte === comma) this.#key = '';
      }
    }
    this.#depth = depth;
    this.#inItems = inItems;
    if (!inItems) this.#addToEnvelope(chunk.subarray(start));
    else if (depth > 2) this.#item.add(chunk.subarray(start));
  }

  /**
   * The list without its items, at the end of the body. Throws a StreamError if it is truncated.
   */
  envelope(): unknown {
    const text = this.#envelope.take();
    if (text === 'oversized' || this.#inItems || this.#depth !== 0) {
      throw new StreamError('cut', 'the list ended in the middle');
    }
    try {
      return JSON.parse(text.toString('utf8'));
    } catch {
      throw new StreamError('garbage', 'the answer is not a JSON list');
    }
  }

  /** Index of the quote that ends the string, or the end of the chunk. */
  #throughString(chunk: Buffer, from: number, depth: number): number {
    let escaped = this.#escaped;
    let at = from;
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at]!;
      if (escaped) escaped = false;
      else if (byte === backslash) escaped = true;
      else if (byte === quote) break;
      else if (depth === 1 && this.#key.length < 'items:'.length) {
        this.#key += String.fromCharCode(byte);
      }
    }
    this.#escaped = escaped;
    this.#inString = at === chunk.length;
    return at;
  }

  #beginItems(before: Buffer): void {
    if (this.#itemsSeen) throw new StreamError('garbage', 'the list has its items twice');
    this.#addToEnvelope(before);
    this.#itemsSeen = true;
  }

  #addToEnvelope(part: Buffer): void {
    this.#envelope.add(part);
    if (this.#envelope.isOversized) throw notAList();
  }
}

function notAnObject(): StreamError {
  return new StreamError('garbage', 'an item of the list is not an object');
}

function notAList(): StreamError {
  const reason = `the answer is not a list: it has over ${envelopeBytesMax} bytes without items`;
  return new StreamError('garbage', reason);
}
