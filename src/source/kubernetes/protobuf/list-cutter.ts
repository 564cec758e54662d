import { StreamError } from '../errors.ts';
import { type Framed, Pieces } from '../pieces.ts';
import { magic, readWhole, typeMeta, unknownFields } from './envelope.ts';
import { listMeta } from './kinds.ts';
import type { Found } from './message.ts';
import type { StringCache } from './string-cache.ts';
import { WireError } from './wire.ts';

/** The most bytes of metadata and type. */
const headBytesMax = 1024 * 1024;
const varintBytesMax = 10;
const delimited = 2;
/** Numbers of the fields of every list. */
const listFields = { metadata: 1, items: 2 } as const;

/** What the bytes are that come: see `push`. */
type Part = 'magic' | 'tag' | 'length' | 'item' | 'metadata' | 'typeMeta' | 'other' | 'number';

/**
 * Cuts the body of a list into its items as it comes: an envelope, and in it a message whose field
 * 2 are the items. So the body is never in memory as a whole.
 */
export class ListCutter {
  readonly #item: Pieces;
  readonly #head = new Pieces(headBytesMax);
  readonly #strings: StringCache;
  #part: Part = 'magic';
  /** Bytes of this part that have not come. */
  #missing = magic.length;
  /** A varint that has begun. */
  #number = 0;
  #numberBytes = 0;
  #tag = 0;
  /** Bytes of the list message that have not come; undefined = it has not begun, or is over. */
  #listMissing: number | undefined;
  #listSeen = false;
  #metadata: Found = {};

  constructor(itemBytesMax: number, strings: StringCache) {
    this.#item = new Pieces(itemBytesMax);
    this.#strings = strings;
  }

  /** The items that end in this chunk. Throws a StreamError when this is no list. */
  *push(chunk: Buffer): Generator<Framed> {
    let at = 0;
    while (at < chunk.length) {
      if (this.#part === 'tag' || this.#part === 'length' || this.#part === 'number') {
        this.#count(1);
        const isEmpty = this.#digit(chunk[at]!);
        at += 1;
        if (isEmpty) yield* this.#end(Buffer.alloc(0));
        continue;
      }
      const end = Math.min(chunk.length, at + this.#missing);
      this.#count(end - at);
      this.#missing -= end - at;
      const bytes = chunk.subarray(at, end);
      at = end;
      if (this.#missing === 0) yield* this.#end(bytes);
      else this.#keep(bytes);
    }
  }

  /** The list without its items, when the body has ended. Throws a StreamError when it is cut. */
  envelope(): Found {
    const isOver = this.#part === 'tag' && this.#numberBytes === 0;
    if (!isOver || this.#listMissing !== undefined) {
      throw new StreamError('cut', 'the list ended in the middle');
    }
    if (!this.#listSeen) throw new StreamError('garbage', 'the answer is no list');
    return { metadata: this.#metadata };
  }

  /** Takes so many bytes off the list message, if it is being read. */
  #count(length: number): void {
    if (this.#listMissing === undefined) return;
    if (length > this.#listMissing) throw broken();
    this.#listMissing -= length;
  }

  /** Takes a byte of a varint. True: it was the length of a value of no bytes. */
  #digit(byte: number): boolean {
    this.#numberBytes += 1;
    if (this.#numberBytes > varintBytesMax) throw broken();
    this.#number += (byte & 0x7f) * 2 ** (7 * (this.#numberBytes - 1));
    if (byte >= 0x80) return false;
    const number = this.#number;
    this.#number = 0;
    this.#numberBytes = 0;
    if (this.#part === 'tag') {
      this.#beginField(number);
      return false;
    }
    if (this.#part === 'number') {
      this.#next();
      return false;
    }
    return this.#beginValue(number);
  }

  #beginField(tag: number): void {
    this.#tag = tag;
    const wireType = tag % 8;
    if (tag < 8 || tag > 0xffff_ffff) throw broken();
    if (wireType === delimited) this.#part = 'length';
    else if (wireType === 0) this.#part = 'number';
    else if (wireType === 1 || wireType === 5) this.#skip(wireType === 1 ? 8 : 4);
    else throw broken();
  }

  #skip(length: number): void {
    this.#part = 'other';
    this.#missing = length;
  }

  /** True: the value has no bytes, and ends here. */
  #beginValue(length: number): boolean {
    const field = Math.floor(this.#tag / 8);
    if (this.#listMissing !== undefined) {
      if (length > this.#listMissing) throw broken();
      if (field === listFields.items) this.#part = 'item';
      else this.#part = field === listFields.metadata ? 'metadata' : 'other';
    } else if (field === unknownFields.raw) {
      if (this.#listSeen) throw new StreamError('garbage', 'the answer has two lists');
      this.#listSeen = true;
      this.#listMissing = length;
      this.#next();
      return false;
    } else {
      this.#part = field === unknownFields.typeMeta ? 'typeMeta' : 'other';
    }
    this.#missing = length;
    return length === 0;
  }

  #keep(bytes: Buffer): void {
    if (this.#part === 'item') this.#item.add(bytes);
    else if (this.#part !== 'other') this.#head.add(bytes);
  }

  /** A part ends with these bytes. */
  *#end(bytes: Buffer): Generator<Framed> {
    const part = this.#part;
    if (part === 'item') yield this.#item.end(bytes);
    else if (part !== 'other') this.#takeHead(part, this.#head.end(bytes));
    this.#next();
  }

  #takeHead(part: Part, bytes: Framed): void {
    if (bytes === 'oversized') throw broken();
    if (part === 'magic' && !bytes.equals(magic)) throw broken();
    try {
      if (part === 'metadata') this.#metadata = readWhole(bytes, listMeta, this.#strings);
      if (part !== 'typeMeta') return;
      const { kind } = readWhole(bytes, typeMeta, this.#strings);
      if (typeof kind === 'string' && !kind.endsWith('List')) throw broken();
    } catch (error) {
      throw error instanceof WireError ? broken() : error;
    }
  }

  /** The next field begins, or the list message is over. */
  #next(): void {
    this.#part = 'tag';
    if (this.#listMissing === 0) this.#listMissing = undefined;
  }
}

function broken(): StreamError {
  return new StreamError('garbage', 'the answer is no protobuf list');
}
