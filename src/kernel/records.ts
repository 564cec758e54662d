/**
 * Records: the one binary form in which values cross the boundary between TypeScript and C++, in
 * both directions (ops, rule expressions, acknowledgements, dumps).
 *
 * A record is `u32 code, u32 payloadBytes, payload`. The payload holds the schema's fields in
 * their order, everything in host byte order and aligned to 4 bytes:
 * - `u8`, `u16`, `u32`, `i32` take one 32-bit word;
 * - `u64` takes two words, low word first (values up to 2^53 - 1);
 * - `string` (UTF-8) and `bytes` take a word for the length in bytes, then the bytes, padded with
 *   zeroes to a multiple of 4.
 *
 * The C++ side is generated from the same schema (`native/protocol/ops.gen.h`).
 */

export type FieldType = 'u8' | 'u16' | 'u32' | 'i32' | 'u64' | 'string' | 'bytes';

/** The shape of one record: its code, unique within a schema, and its fields in wire order. */
export interface RecordShape {
  readonly code: number;
  readonly fields: Readonly<Record<string, FieldType>>;
}

export type Schema = Readonly<Record<string, RecordShape>>;

type FieldValue<T extends FieldType> = T extends 'string'
  ? string
  : T extends 'bytes'
    ? Uint8Array
    : number;

/** The values of a record of shape `S`. */
export type FieldsOf<S extends RecordShape> = {
  readonly [K in keyof S['fields']]: FieldValue<S['fields'][K]>;
};

/** One decoded record: its name in the schema and its field values. */
export type RecordOf<S extends Schema> = {
  [K in keyof S & string]: { readonly kind: K } & FieldsOf<S[K]>;
}[keyof S & string];

/**
 * The owner of a record: a key, or a function that returns the key for one of the record's entries.
 * The function gets undefined if it is not known which entry. '' or undefined: no owner.
 */
type Owner = string | ((entry: number | undefined) => string | undefined);

const textEncoder = new TextEncoder();

const headerBytes = 8;

function padded(length: number): number {
  return (length + 3) & ~3;
}

/** Names what failed; undefined: not known. */
interface FailedRecord {
  readonly op: number | undefined;
  readonly entry: number | undefined;
}

const slab = { free: new Uint8Array(0) };

/** Zeros for a batch, which is not kept, in shared memory: V8 frees each memory by itself. */
export function smallBytes(length: number): Uint8Array<ArrayBuffer> {
  if (length > slab.free.length) slab.free = new Uint8Array(16 * 1024);
  const bytes = slab.free.subarray(0, length);
  slab.free = slab.free.subarray(length);
  return bytes;
}

/** Writes records into one growing buffer. */
export class RecordWriter<S extends Schema> {
  readonly #schema: S;
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;
  #count = 0;
  /** By index, up to the last record that has an owner. */
  readonly #owners: Owner[] = [];

  constructor(schema: S, capacityBytes = 0) {
    this.#schema = schema;
    this.#bytes = capacityBytes > 0 ? new Uint8Array(capacityBytes) : smallBytes(1024);
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
  }

  /** Records written so far; the index that the next record will have. */
  get count(): number {
    return this.#count;
  }

  get byteLength(): number {
    return this.#length;
  }

  /** Appends a record and returns its index. Throws RangeError on a value that does not fit. */
  write<K extends keyof S & string>(kind: K, fields: FieldsOf<S[K]>, owner: Owner = ''): number {
    const shape = this.#schema[kind]!;
    this.#reserve(headerBytes);
    const start = this.#length;
    this.#view.setUint32(start, shape.code, true);
    this.#length += headerBytes;
    const values = fields as Readonly<Record<string, number | string | Uint8Array>>;
    for (const name in shape.fields) {
      this.#field(kind, name, shape.fields[name]!, values[name]!);
    }
    this.#view.setUint32(start + 4, this.#length - start - headerBytes, true);
    if (owner !== '') {
      while (this.#owners.length < this.#count) this.#owners.push('');
      this.#owners.push(owner);
    }
    this.#count += 1;
    return this.#count - 1;
  }

  /** The owner of the record with index `op`, or of one of its entries; empty if there is none. */
  ownersOf({ op, entry }: FailedRecord): string[] {
    const owner = op === undefined ? undefined : this.#owners[op];
    const key = typeof owner === 'function' ? owner(entry) : owner;
    return key === undefined || key === '' ? [] : [key];
  }

  /** The records written so far. Nothing must be written afterwards. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #field(kind: string, name: string, type: FieldType, value: number | string | Uint8Array): void {
    switch (type) {
      case 'string':
        this.#text(value as string);
        return;
      case 'bytes':
        this.#blob(value as Uint8Array);
        return;
      default:
        if (!isIn(numberBounds[type], value as number)) {
          throw new RangeError(`${kind}.${name}: ${value} is not a ${type}`);
        }
        this.#number(type, value as number);
    }
  }

  #number(type: keyof typeof numberBounds, value: number): void {
    this.#reserve(8);
    this.#view.setUint32(this.#length, value >>> 0, true);
    this.#length += 4;
    if (type === 'u64') {
      this.#view.setUint32(this.#length - 4, value % 2 ** 32, true);
      this.#view.setUint32(this.#length, Math.floor(value / 2 ** 32), true);
      this.#length += 4;
    }
  }

  /** Most strings are short and ASCII, for which a call of the encoder costs more than they do. */
  #text(text: string): void {
    this.#reserve(4 + padded(text.length));
    const start = this.#length + 4;
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        this.#blob(textEncoder.encode(text));
        return;
      }
      this.#bytes[start + i] = code;
    }
    this.#view.setUint32(this.#length, text.length, true);
    this.#length = start + padded(text.length);
  }

  #blob(bytes: Uint8Array): void {
    this.#reserve(4 + padded(bytes.length));
    this.#view.setUint32(this.#length, bytes.length, true);
    this.#bytes.set(bytes, this.#length + 4);
    this.#length += 4 + padded(bytes.length);
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

const numberBounds = {
  u8: [0, 0xff],
  u16: [0, 0xffff],
  u32: [0, 0xffffffff],
  i32: [-0x80000000, 0x7fffffff],
  u64: [0, Number.MAX_SAFE_INTEGER],
} as const;

function isIn([low, high]: readonly [number, number], value: number): boolean {
  return Number.isInteger(value) && value >= low && value <= high;
}

/** A buffer that does not follow the schema. */
export class RecordError extends Error {
  override readonly name = 'RecordError';
}

/**
 * Reads the records of `bytes` in order. `bytes` fields are views into `bytes`, not copies.
 * Throws RecordError when the buffer does not follow the schema.
 */
export function* readRecords<S extends Schema>(
  schema: S,
  bytes: Uint8Array,
): Generator<RecordOf<S>> {
  const shapes = shapesOf(schema);
  const { buffer, byteLength, byteOffset } = bytes;
  const view = new DataView(buffer, byteOffset, byteLength);
  const text = Buffer.from(buffer, byteOffset, byteLength);
  const source = { bytes, text, view };
  let at = 0;
  while (at < bytes.length) {
    if (at + headerBytes > bytes.length) throw new RecordError(`truncated header at byte ${at}`);
    const code = view.getUint32(at, true);
    const shape = shapes.get(code);
    if (shape === undefined) throw new RecordError(`unknown record code ${code} at byte ${at}`);
    const { kind, fields } = shape;
    const end = at + headerBytes + view.getUint32(at + 4, true);
    if (end > bytes.length) throw new RecordError(`truncated ${kind} at byte ${at}`);
    yield readFields(kind, fields, source, at + headerBytes, end) as RecordOf<S>;
    at = end;
  }
}

type Fields = readonly (readonly [name: string, type: FieldType])[];

/** By code. */
type Shapes = ReadonlyMap<number, { readonly kind: string; readonly fields: Fields }>;

/** Most buffers hold few records, and their schema has many. */
const shapesBySchema = new WeakMap<Schema, Shapes>();

function shapesOf(schema: Schema): Shapes {
  const known = shapesBySchema.get(schema);
  if (known !== undefined) return known;
  const shapes: Shapes = new Map(
    Object.entries(schema).map(([kind, { code, fields }]) => [
      code,
      { kind, fields: Object.entries(fields) },
    ]),
  );
  shapesBySchema.set(schema, shapes);
  return shapes;
}

/** Where each record of `bytes`, written by a RecordWriter or the addon, begins. Reads headers only. */
export function* recordStarts(bytes: Uint8Array): Generator<number> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (
    let at = 0;
    at + headerBytes <= bytes.length;
    at += headerBytes + view.getUint32(at + 4, true)
  ) {
    yield at;
  }
}

/** The same bytes, in three forms. */
interface Source {
  readonly bytes: Uint8Array;
  readonly text: Buffer;
  readonly view: DataView;
}

function readFields(
  kind: string,
  fields: Fields,
  { bytes, text, view }: Source,
  start: number,
  end: number,
): object {
  const record: Record<string, string | number | Uint8Array> = { kind };
  let at = start;
  for (const [name, type] of fields) {
    const fixed = type === 'u64' ? 8 : 4;
    if (at + fixed > end) throw new RecordError(`${kind}.${name} is truncated`);
    const word = view.getUint32(at, true);
    if (type === 'string' || type === 'bytes') {
      // The first test keeps `padded`, which works on 32 bits, from overflowing.
      if (word > end - at || at + 4 + padded(word) > end) {
        throw new RecordError(`${kind}.${name} is truncated`);
      }
      const to = at + 4 + word;
      // A view of each string, for a decoder, would take longer than the string.
      if (type === 'string') record[name] = text.toString('utf8', at + 4, to);
      else record[name] = bytes.subarray(at + 4, to);
      at += 4 + padded(word);
      continue;
    }
    if (type === 'u64') record[name] = word + view.getUint32(at + 4, true) * 2 ** 32;
    else record[name] = type === 'i32' ? view.getInt32(at, true) : word;
    at += fixed;
  }
  // As the addon does: bytes that no field names mean another schema.
  if (at !== end) throw new RecordError(`${kind} has bytes after its last field`);
  return record;
}
