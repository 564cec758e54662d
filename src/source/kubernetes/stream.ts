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
  /** The current position: around the items, between them, or inside one. */
  #part: 'envelope' | 'items' | 'item' = 'envelope';
  /** Open braces and brackets, within the envelope or the item. */
  #depth = 0;
  #inString = false;
  #escaped = false;
  /** The last string at depth 1 of the envelope, when it may be the key `items`. */
  #key = '';
  #itemsSeen = false;

  constructor(itemBytesMax: number) {
    this.#item = new Chunks(itemBytesMax);
  }

  /** The items that end in this chunk. Throws a StreamError if this is not a list. */
  *push(chunk: Buffer): Generator<Framed> {
    let at = 0;
    while (at < chunk.length) {
      const start = at;
      if (this.#part === 'items') {
        at = this.#betweenItems(chunk, at);
        continue;
      }
      const inItem = this.#part === 'item';
      at = inItem ? this.#toItemEnd(chunk, at) : this.#toItemsStart(chunk, at);
      const part = chunk.subarray(start, at);
      if (!inItem) {
        this.#envelope.add(part);
        if (this.#envelope.isOversized) throw notAList();
      } else if (this.#depth > 0) {
        this.#item.add(part);
      } else {
        this.#part = 'items';
        yield this.#item.end(part);
      }
    }
  }

  /**
   * The list without its items, at the end of the body. Throws a StreamError if it is truncated.
   */
  envelope(): unknown {
    const text = this.#envelope.take();
    if (text === 'oversized' || this.#part !== 'envelope' || this.#depth !== 0) {
      throw new StreamError('cut', 'the list ended in the middle');
    }
    try {
      return JSON.parse(text.toString('utf8'));
    } catch {
      throw new StreamError('garbage', 'the answer is not a JSON list');
    }
  }

  /** Index after the byte that ends the item, or the end of the chunk. */
  #toItemEnd(chunk: Buffer, from: number): number {
    let { length: end } = chunk;
    let depth = this.#depth;
    let inString = this.#inString;
    let escaped = this.#escaped;
    for (let at = from; at < end; at += 1) {
      const byte = chunk[at]!;
      if (inString) {
        if (escaped) escaped = false;
        else if (byte === backslash) escaped = true;
        else if (byte === quote) inString = false;
      } else if (byte === quote) {
        inString = true;
      } else if (byte === openBrace || byte === openBracket) {
        depth += 1;
      } else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1;
        if (depth === 0) end = at + 1;
      }
    }
    this.#depth = depth;
    this.#inString = inString;
    this.#escaped = escaped;
    return end;
  }

  #betweenItems(chunk: Buffer, at: number): number {
    const byte = chunk[at]!;
    if (byte === openBrace) {
      this.#part = 'item';
      this.#depth = 0;
      return at;
    }
    if (byte === closeBracket) {
      // Back to depth 1, the list object; the bracket itself completes `"items":[]`.
      this.#part = 'envelope';
      this.#depth = 2;
      return at;
    }
    if (byte === comma || byte <= 0x20) return at + 1;
    throw new StreamError('garbage', 'an item of the list is not an object');
  }

  /** Index after the bracket that opens the items, or the end of the chunk. */
  #toItemsStart(chunk: Buffer, from: number): number {
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at]!;
      if (this.#inString) {
        this.#inEnvelopeString(byte);
      } else if (byte === quote) {
        this.#inString = true;
        if (this.#depth === 1) this.#key = '';
      } else if (byte === openBrace || byte === openBracket) {
        this.#depth += 1;
        if (this.#depth === 2 && byte === openBracket && this.#key === 'items:') {
          if (this.#itemsSeen) throw new StreamError('garbage', 'the list has its items twice');
          this.#itemsSeen = true;
          this.#part = 'items';
          return at + 1;
        }
      } else if (byte === closeBrace || byte === closeBracket) {
        this.#depth -= 1;
      } else if (byte === colon && this.#depth === 1) {
        // One more character than the key has, so that `items::` is not the key.
        if (this.#key.length <= 'items:'.length) this.#key += ':';
      } else if (byte === comma && this.#depth === 1) {
        this.#key = '';
      }
    }
    return chunk.length;
  }

  #inEnvelopeString(byte: number): void {
    if (this.#escaped) {
      this.#escaped = false;
    } else if (byte === backslash) {
      this.#escaped = true;
    } else if (byte === quote) {
      this.#inString = false;
    } else if (this.#depth === 1 && this.#key.length < 'items:'.length) {
      this.#key += String.fromCharCode(byte);
    }
  }
}

function notAList(): StreamError {
  const reason = `the answer is not a list: it has over ${envelopeBytesMax} bytes without items`;
  return new StreamError('garbage', reason);
}
