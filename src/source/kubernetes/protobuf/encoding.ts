import { type RawObject, show } from '../../decode/field-reader.ts';
import { type DecodeContext, kindOf } from '../../decode.ts';
import type { Watched } from '../../source.ts';
import { Chunks, type Framed } from '../chunks.ts';
import type { Encoding } from '../encoding.ts';
import { StreamError } from '../errors.ts';
import { type WatchEvent, watchEventTypes } from '../watch-event.ts';
import { unwrap } from './envelope.ts';
import { status } from './kinds.ts';
import { ListCutter } from './list-cutter.ts';
import { goInto, readMessage, textOf } from './message.ts';
import { ObjectReader } from './object-reader.ts';
import { StringCache } from './string-cache.ts';
import { WireReader } from './wire.ts';

/** Numbers of the fields of an event, and of the object in it. */
const eventFields = { type: 1, object: 2, raw: 1 } as const;

/** The API server's protobuf encoding of the objects of one resource. */
export function protobuf(
  resource: Watched,
  context: DecodeContext,
  strings: StringCache,
): Encoding {
  const objects = new ObjectReader(resource, context);
  return {
    events: (bytesMax) => new FrameCutter(bytesMax),
    event: (bytes) => readEvent(bytes, resource, objects, strings),
    list: (itemBytesMax) => new ListCutter(itemBytesMax, strings),
    item: (bytes) => objects.read(new WireReader(bytes, strings)),
  };
}

function* readEvent(
  bytes: Buffer,
  resource: Watched,
  objects: ObjectReader,
  strings: StringCache,
): Generator<undefined, WatchEvent> {
  try {
    const reader = new WireReader(bytes, strings);
    const given = textOf(reader, eventFields.type);
    const type = watchEventTypes.find((known) => known === given);
    const hasObject = goInto(reader, eventFields.object) && goInto(reader, eventFields.raw);
    if (type === undefined || !hasObject) throw new Error('it has no type or no object');
    const kind = unwrap(reader);
    if (kind === kindOf[resource]) return { type, object: yield* objects.read(reader) };
    if (type === 'ERROR') return { type, object: readMessage(reader, status) };
    throw new Error(`its object is of kind ${show(kind)}`);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new StreamError('garbage', `invalid watch event: ${why}`);
  }
}

/** Reads a Status in its envelope; undefined if the body is not one. */
export function readStatus(body: Buffer): RawObject | undefined {
  const reader = new WireReader(body, new StringCache());
  try {
    unwrap(reader);
    return readMessage(reader, status);
  } catch {
    return undefined;
  }
}

const prefixBytes = 4;
/** No event is longer. A longer frame shows that the stream does not consist of frames. */
const frameBytesMax = 256 * 1024 * 1024;

/**
 * Splits a watch stream into frames: a length of four bytes, big-endian, followed by the event. An
 * event longer than `bytesMax` is not kept in memory.
 */
export class FrameCutter {
  readonly #chunks: Chunks;
  readonly #prefix = Buffer.alloc(prefixBytes);
  #prefixLength = 0;
  /** Bytes of the frame that have not arrived yet. */
  #missing = 0;

  constructor(bytesMax: number) {
    this.#chunks = new Chunks(bytesMax);
  }

  /** Takes a chunk, and returns the frames that end in it. Throws a StreamError on other data. */
  *push(chunk: Buffer): Generator<Framed> {
    let at = 0;
    while (at < chunk.length) {
      if (this.#missing === 0) {
        at = this.#readPrefix(chunk, at);
        continue;
      }
      const end = Math.min(chunk.length, at + this.#missing);
      this.#missing -= end - at;
      const part = chunk.subarray(at, end);
      at = end;
      if (this.#missing > 0) this.#chunks.add(part);
      else yield this.#chunks.end(part);
    }
  }

  /** The bytes of the incomplete frame. */
  get pendingBytes(): number {
    return this.#prefixLength + this.#missing;
  }

  /** The index after what was read. */
  #readPrefix(chunk: Buffer, from: number): number {
    if (this.#prefixLength === 0 && chunk.length - from >= prefixBytes) {
      this.#begin(chunk.readUInt32BE(from));
      return from + prefixBytes;
    }
    const copied = chunk.copy(this.#prefix, this.#prefixLength, from);
    this.#prefixLength += copied;
    if (this.#prefixLength === prefixBytes) {
      this.#prefixLength = 0;
      this.#begin(this.#prefix.readUInt32BE());
    }
    return from + copied;
  }

  #begin(length: number): void {
    if (length > frameBytesMax || length === 0) {
      throw new StreamError('garbage', `the server sent a frame of ${length} bytes`);
    }
    this.#missing = length;
  }
}
