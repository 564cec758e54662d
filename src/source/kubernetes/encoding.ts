import type { Framed } from './chunks.ts';
import type { Form } from './content-types.ts';
import { LineFramer, ListSplitter } from './stream.ts';
import { parseJSON } from './values.ts';
import { parseWatchEvent, startOf, type WatchEvent } from './watch-event.ts';

/** Splits the body of a watch into events. */
interface EventCutter {
  /** Takes a chunk, and returns the events that end in it. May throw a StreamError. */
  push(chunk: Buffer): Iterable<Framed>;
  /** The bytes of the incomplete event. */
  readonly pendingBytes: number;
}

/** Splits the body of a list into its items. */
interface ListCutter {
  /** Takes a chunk, and returns the items that end in it. May throw a StreamError. */
  push(chunk: Buffer): Iterable<Framed>;
  /** The list without its items, at the end of the body. May throw a StreamError. */
  envelope(): unknown;
}

/** The encoding of one resource's objects. All encodings give the same raw objects. */
export interface Encoding {
  /** An event longer than `bytesMax` is not kept in memory. */
  events(bytesMax: number): EventCutter;
  /** Reads an event, in steps. Throws a StreamError if the bytes are not one. */
  event(bytes: Buffer): Generator<undefined, WatchEvent>;
  list(itemBytesMax: number): ListCutter;
  /** Reads an object, in steps. Throws a one-line Error if the bytes are not one. */
  item(bytes: Buffer): Generator<undefined, unknown>;
}

export type Encodings = Readonly<Record<Form, Encoding>>;

export const json: Encoding = {
  events: (bytesMax) => new LineFramer(bytesMax),
  *event(line) {
    const event = parseWatchEvent(line);
    // To decode an object of a megabyte takes another turn.
    yield;
    return event;
  },
  list: (itemBytesMax) => new ListSplitter(itemBytesMax),
  *item(bytes) {
    const item = parseItem(bytes);
    yield;
    return item;
  },
};

function parseItem(bytes: Buffer): unknown {
  try {
    return parseJSON(bytes);
  } catch (error) {
    const reason = error instanceof Error ? error.message : error;
    throw new Error(`cannot read an object: ${reason}: ${startOf(bytes)}`);
  }
}
