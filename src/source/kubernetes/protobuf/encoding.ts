import { type RawObject, show } from '../../decode/field-reader.ts';
import { type DecodeContext, kindOf } from '../../decode.ts';
import type { Watched } from '../../source.ts';
import type { Encoding } from '../encoding.ts';
import { StreamError } from '../errors.ts';
import { type WatchEvent, watchEventTypes } from '../watch-event.ts';
import { unwrap } from './envelope.ts';
import { FrameCutter } from './frame-cutter.ts';
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
