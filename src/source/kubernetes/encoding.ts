import type { Form } from './content-types.ts';
import type { Framed } from './pieces.ts';
import { LineFramer, ListSplitter } from './stream.ts';
import { parseWatchEvent, type WatchEvent } from './watch-event.ts';

/** Cuts the body of a watch into events. */
interface EventCutter {
  /** The events that this chunk ends. May throw a StreamError. */
  push(chunk: Buffer): Iterable<Framed>;
  /** Bytes of an event that has not ended. */
  readonly pendingBytes: number;
}

/** Cuts the body of a list into its items. */
interface ListCutter {
  /** The items that end in this chunk. May throw a StreamError. */
  push(chunk: Buffer): Iterable<Framed>;
  /** The list without its items, when the body has ended. May throw a StreamError. */
  envelope(): unknown;
}

/** How the objects of one resource are written. Both ways give the same raw objects. */
export interface Encoding {
  /** What is longer than `bytesMax` is not kept in memory. */
  events(bytesMax: number): EventCutter;
  /** Throws a StreamError when the bytes are no event. */
  event(bytes: Buffer): WatchEvent;
  list(itemBytesMax: number): ListCutter;
  /** Throws an Error of one line when the bytes are no object. */
  item(bytes: Buffer): unknown;
}

export type Encodings = Readonly<Record<Form, Encoding>>;

export const json: Encoding = {
  events: (bytesMax) => new LineFramer(bytesMax),
  event: parseWatchEvent,
  list: (itemBytesMax) => new ListSplitter(itemBytesMax),
  item: (bytes) => {
    try {
      return JSON.parse(bytes.toString('utf8'));
    } catch (error) {
      throw new Error(`an object is no JSON: ${error instanceof Error ? error.message : error}`);
    }
  },
};
