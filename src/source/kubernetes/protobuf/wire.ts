import { valuesMax } from '../values.ts';
import type { StringCache } from './string-cache.ts';

/** The bytes are not a protobuf message. Each outer reader adds its field to the path. */
export class WireError extends Error {
  override readonly name = 'WireError';
  #path = '';

  /** `spec.ports` */
  get path(): string {
    return this.#path;
  }

  /** Adds the field that contains the error. */
  within(field: string): this {
    this.#path = this.#path === '' ? field : `${field}.${this.#path}`;
    return this;
  }
}

/** Wire types: the low three bits of a tag. */
const varint = 0;
const fixed64 = 1;
const delimited = 2;
const fixed32 = 5;

const varintBytesMax = 10;
const twoTo32 = 2 ** 32;

/** Reads a protobuf message, field by field. Throws a WireError if the bytes are invalid. */
export class WireReader {
  readonly bytes: Buffer;
  readonly #strings: StringCache;
  /** Index of the next byte. */
  at = 0;
  /** The index after the current message, which may be inside of others. */
  end: number;
  #fields = 0;

  constructor(bytes: Buffer, strings: StringCache) {
    this.bytes = bytes;
    this.#strings = strings;
    this.end = bytes.length;
  }

  /** Begins a message inside this one. Returns the argument of `leave`. */
  enter(): number {
    const outer = this.end;
    const length = this.length();
    this.end = this.at + length;
    return outer;
  }

  /** Continues with the outer message. */
  leave(outer: number): void {
    this.at = this.end;
    this.end = outer;
  }

  /** The number of the next field and its wire type. */
  tag(): number {
    const tag = this.int32() >>> 0;
    this.#fields += 1;
    if (this.#fields > valuesMax) {
      // Metadata can still be read, for the name of the object.
      this.#fields = 0;
      throw new WireError(`it has more than ${valuesMax} fields`);
    }
    if (tag >>> 3 === 0) throw new WireError('a field has no number');
    return tag;
  }

  /** The low 32 bits of a varint, with their sign. Protobuf defines that more bits are cut. */
  int32(): number {
    const { bytes, end } = this;
    let value = 0;
    for (let i = 0; i < varintBytesMax; i += 1) {
      if (this.at >= end) throw cutShort();
      const byte = bytes[this.at]!;
      this.at += 1;
      if (i < 5) value |= (byte & 0x7f) << (7 * i);
      if (byte < 0x80) return value;
    }
    throw new WireError('a number is longer than ten bytes');
  }

  /** A varint of 64 bits, with its sign. It is rounded when a number cannot hold it. */
  int64(): number {
    const from = this.at;
    const low = this.int32() >>> 0;
    let high = 0;
    for (let i = 4; from + i < this.at; i += 1) {
      const bits = this.bytes[from + i]! & 0x7f;
      high |= i === 4 ? bits >>> 4 : bits << (7 * i - 32);
    }
    return high * twoTo32 + low;
  }

  flag(): boolean {
    return this.int32() !== 0;
  }

  text(): string {
    const from = this.at;
    this.skipBytes();
    return this.bytes.toString('utf8', this.#payload(from), this.at);
  }

  /** A string with few different values. The cache returns an equal earlier one. */
  common(): string {
    const from = this.at;
    this.skipBytes();
    return this.#strings.read(this.bytes, this.#payload(from), this.at);
  }

  /** Reads a length. Throws a WireError if the message has fewer bytes left. */
  length(): number {
    const length = this.int32();
    if (length < 0 || length > this.end - this.at) throw cutShort();
    return length;
  }

  skipBytes(): void {
    const length = this.length();
    this.at += length;
  }

  /** Skips the value of a field with this tag. */
  skip(tag: number): void {
    switch (tag & 7) {
      case varint:
        this.int32();
        return;
      case fixed64:
        this.#skip(8);
        return;
      case delimited:
        this.skipBytes();
        return;
      case fixed32:
        this.#skip(4);
        return;
      default:
        throw new WireError(`field ${tag >>> 3} is of wire type ${tag & 7}, which nothing has`);
    }
  }

  #skip(length: number): void {
    if (length > this.end - this.at) throw cutShort();
    this.at += length;
  }

  /** The index of the bytes whose length is at `from`. */
  #payload(from: number): number {
    let at = from;
    while (this.bytes[at]! >= 0x80) at += 1;
    return at + 1;
  }
}

function cutShort(): WireError {
  return new WireError('it ends in the middle');
}
