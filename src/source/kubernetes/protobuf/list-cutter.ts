import { Chunks, type Framed } from '../chunks.ts';
import { StreamError } from '../errors.ts';
import { magic, readWhole, typeMeta, unknownFields } from './envelope.ts';
import { listMeta } from './kinds.ts';
import type { Found } from './message.ts';
import type { StringCache } from './string-cache.ts';
import { WireError } from './wire.ts';

/** The longest metadata or type that is accepted. */
const headBytesMax = 1024 * 1024;
const varintBytesMax = 10;
const delimited = 2;
/** Numbers of the fields of every list. */
const listFields = { metadata: 1, items: 2 } as const;

/** The part of the body that the next bytes belong to; see `push`. */
type Part = 'magic' | 'tag' | 'length' | 'item' | 'metadata' | 'typeMeta' | 'other' | 'number';

/**
 * Splits the body of a list into its items while it arrives, so that it is never in memory as a
 * whole. The body is an envelope with a message whose field 2 are the items.
 */
export class ListCutter {
  readonly #item: Chunks;
  readonly #head = new Chunks(headBytesMax);
  readonly #strings: StringCache;
  #part: Part = 'magic';
  /** The number of bytes of this part that have not arrived. */
  #missing = magic.length;
  /** An incomplete varint. */
  readonly #varint = { value: 0, bytes: 0 };
  #tag = 0;
  /** `missing`: the bytes of the list message that have not arrived; undefined = outside of it. */
  readonly #list = { isSeen: false, missing: undefined as number | undefined };
  #metadata: Found = {};

  constructor(itemBytesMax: number, strings: StringCache) {
    this.#item = new Chunks(itemBytesMax);
    this.#strings = strings;
  }

  /** Takes a chunk, and returns the items that end in it. Throws a StreamError on other data. */
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

  /** The list without its items, after the whole body. Throws a StreamError if it is truncated. */
  envelope(): Found {
    const isOver = this.#part === 'tag' && this.#varint.bytes === 0;
    if (!isOver || this.#list.missing !== undefined) {
      throw new StreamError('cut', 'the list ended in the middle');
    }
    if (!this.#list.isSeen) throw new StreamError('garbage', 'the answer is not a list');
    return { metadata: this.#metadata };
  }

  /** Counts bytes inside the list message. */
  #count(length: number): void {
    if (this.#list.missing === undefined) return;
    if (length > this.#list.missing) throw broken();
    this.#list.missing -= length;
  }

  /** Takes a byte of a varint. True: the varint was the length of an empty value. */
  #digit(byte: number): boolean {
    const varint = this.#varint;
    varint.bytes += 1;
    if (varint.bytes > varintBytesMax) throw broken();
    varint.value += (byte & 0x7f) * 2 ** (7 * (varint.bytes - 1));
    if (byte >= 0x80) return false;
    const number = varint.value;
    varint.value = 0;
    varint.bytes = 0;
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

  /** Begins a value of this length. True: it is empty, and ends here. */
  #beginValue(length: number): boolean {
    const field = Math.floor(this.#tag / 8);
    if (this.#list.missing !== undefined) {
      if (length > this.#list.missing) throw broken();
      if (field === listFields.items) this.#part = 'item';
      else this.#part = field === listFields.metadata ? 'metadata' : 'other';
    } else if (field === unknownFields.raw) {
      if (this.#list.isSeen) throw new StreamError('garbage', 'the answer has two lists');
      this.#list.isSeen = true;
      this.#list.missing = length;
      this.#next();
      return false;
    } else {
      this.#part = field === unknownFields.typeMeta ? 'typeMeta' : 'other';
    }
    const isHead = this.#part === 'metadata' || this.#part === 'typeMeta';
    if (isHead && length > headBytesMax) throw broken();
    this.#missing = length;
    return length === 0;
  }

  #keep(bytes: Buffer): void {
    if (this.#part === 'item') this.#item.add(bytes);
    else if (this.#part !== 'other') this.#head.add(bytes);
  }

  /** Ends a part. `bytes` are its last ones. */
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

  /** Moves to the next field, or to the end of the list message. */
  #next(): void {
    this.#part = 'tag';
    if (this.#list.missing === 0) this.#list.missing = undefined;
  }
}

function broken(): StreamError {
  return new StreamError('garbage', 'the answer is not a protobuf list');
}
