import { endsStep } from '../../decode/entries.ts';
import { WireError, type WireReader } from './wire.ts';

/** The fields of a message, by name, as in JSON. */
export type Found = Record<string, unknown>;

/** A field to read of a message. */
interface Field {
  readonly name: string;
  /** Reads the next value, and adds it to `found`. */
  readonly take: (reader: WireReader, found: Found) => void;
}

/** The fields to read of a message, by tag. All others are skipped. */
export type Message = readonly (Field | undefined)[];

type Definition = readonly [tag: number, field: Field];
type Define = (number: number, name: string) => Definition;

/** Wire types of the fields to read. */
const varint = 0;
const delimited = 2;

export function message(...definitions: readonly Definition[]): Message {
  const fields: (Field | undefined)[] = [];
  for (const [tag, field] of definitions) {
    while (fields.length <= tag) fields.push(undefined);
    fields[tag] = field;
  }
  return fields;
}

function once(wireType: number, read: (reader: WireReader) => unknown): Define {
  return (number, name) => {
    const take = (reader: WireReader, found: Found): void => {
      found[name] = read(reader);
    };
    return [(number << 3) | wireType, { name, take }];
  };
}

export const text = once(delimited, (reader) => reader.text());
/** A string with few different values; see `StringCache`. */
export const common = once(delimited, (reader) => reader.common());
export const int32 = once(varint, (reader) => reader.int32());
export const flag = once(varint, (reader) => reader.flag());

export function nested(number: number, name: string, fields: Message): Definition {
  return once(delimited, (reader) => readNested(reader, fields))(number, name);
}

/** The index of a value, where its length begins. It is read later, as by `messagesAt`. */
export const position = once(delimited, (reader) => {
  const { at } = reader;
  reader.skipBytes();
  return at;
});

const seconds = message(once(varint, (reader) => reader.int64())(1, 'seconds'));

/** A time, to the second as in JSON; undefined if not set. */
export const time = once(delimited, (reader) => {
  const isSet = reader.bytes[reader.at] !== 0;
  const found = readNested(reader, seconds);
  return isSet ? new Date(Number(found.seconds ?? 0) * 1000) : undefined;
});

/**
 * A list of values, each read by another definition. Of more than `most`, one more is read, by which
 * decoding knows that others were left out.
 */
export function repeated(most: number, [tag, { name, take }]: Definition): Definition {
  const one: Found = {};
  const add = (reader: WireReader, found: Found): void => {
    const list = found[name];
    if (Array.isArray(list) && list.length > most) {
      reader.skip(tag);
      return;
    }
    take(reader, one);
    if (Array.isArray(list)) list.push(one[name]);
    else found[name] = [one[name]];
    one[name] = undefined;
  };
  return [tag, { name, take: add }];
}

const entryKey = (1 << 3) | delimited;
const entryValue = (2 << 3) | delimited;

/** Whether to read an entry with a key that is not in `keys`. */
type IsWanted = (length: number, at: (index: number) => number) => boolean;

/**
 * The entries of a map of strings that have these keys, or others for which `isWanted` is true. No strings
 * are made of the rest.
 */
export function entries(
  number: number,
  name: string,
  keys: readonly string[],
  isWanted?: IsWanted,
): Definition {
  const take = (reader: WireReader, found: Found): void => {
    const outer = reader.enter();
    let key: string | undefined;
    let value: number | undefined;
    while (reader.at < reader.end) {
      const tag = reader.tag();
      if (tag === entryKey) key = oneOf(keys, reader, isWanted);
      else if (tag === entryValue) value = reader.at;
      if (tag !== entryKey) reader.skip(tag);
    }
    if (key !== undefined) {
      found[name] ??= {};
      (found[name] as Found)[key] = value === undefined ? '' : textAt(reader, value);
    }
    reader.leave(outer);
  };
  return [(number << 3) | delimited, { name, take }];
}

function textAt(reader: WireReader, at: number): string {
  reader.at = at;
  return reader.text();
}

/** Reads a string that may be one of the keys, in ASCII; undefined if it is not needed. */
function oneOf(
  keys: readonly string[],
  reader: WireReader,
  isWanted?: IsWanted,
): string | undefined {
  const length = reader.length();
  const from = reader.at;
  reader.at += length;
  const { bytes } = reader;
  for (const key of keys) {
    if (key.length !== length) continue;
    let i = 0;
    while (i < length && bytes[from + i] === key.charCodeAt(i)) i += 1;
    if (i === length) return key;
  }
  if (isWanted?.(length, (i) => bytes[from + i]!)) return bytes.toString('utf8', from, reader.at);
  return undefined;
}

/**
 * The index of the field's value, where its length begins; -1 = absent. If it occurs twice, the
 * last one wins. Searches from the reader's index to its end, and restores the index.
 */
function find(reader: WireReader, number: number): number {
  const { at: from } = reader;
  const wanted = (number << 3) | delimited;
  let found = -1;
  while (reader.at < reader.end) {
    const tag = reader.tag();
    if (tag === wanted) found = reader.at;
    reader.skip(tag);
  }
  reader.at = from;
  return found;
}

/**
 * Moves into the message in a field permanently: the reader's end becomes that of the message.
 * False, and the reader does not move, if the field is absent.
 */
export function goInto(reader: WireReader, number: number): boolean {
  const at = find(reader, number);
  if (at < 0) return false;
  reader.at = at;
  reader.enter();
  return true;
}

/** A text with few different values; undefined = the field is absent. The reader does not move. */
export function textOf(reader: WireReader, number: number): string | undefined {
  const at = find(reader, number);
  if (at < 0) return undefined;
  const { at: from } = reader;
  reader.at = at;
  const value = reader.common();
  reader.at = from;
  return value;
}

/** Reads a message inside another one, which begins with its length. */
export function readNested(reader: WireReader, fields: Message): Found {
  const outer = reader.enter();
  const found = readMessage(reader, fields);
  reader.leave(outer);
  return found;
}

/** Reads the messages at these positions, in steps. Throws a WireError within `name`. */
export function* messagesAt(
  reader: WireReader,
  positions: readonly number[],
  name: string,
  fields: Message,
): Generator<undefined, Found[]> {
  const found: Found[] = [];
  for (let i = 0; i < positions.length; i += 1) {
    if (endsStep(i)) yield;
    reader.at = positions[i]!;
    try {
      found.push(readNested(reader, fields));
    } catch (error) {
      throw error instanceof WireError ? error.within(name) : error;
    }
  }
  return found;
}

/**
 * Reads a message from the reader's index to its end. If a field occurs twice, the last one wins.
 */
export function readMessage(reader: WireReader, fields: Message): Found {
  const found: Found = {};
  let field: Field | undefined;
  try {
    while (reader.at < reader.end) {
      field = undefined;
      const tag = reader.tag();
      field = fields[tag];
      if (field === undefined) reader.skip(tag);
      else field.take(reader, found);
    }
  } catch (error) {
    throw error instanceof WireError && field !== undefined ? error.within(field.name) : error;
  }
  return found;
}
