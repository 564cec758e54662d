import type { RawObject } from '../../decode/field-reader.ts';
import { type DecodeContext, kindOf } from '../../decode.ts';
import type { Watched } from '../../source.ts';
import type { Encoding } from '../encoding.ts';
import { StreamError } from '../errors.ts';
import { type WatchEvent, watchEventTypes } from '../watch-event.ts';
import { readWhole, unwrap, valueAt } from './envelope.ts';
import { FrameCutter } from './frame-cutter.ts';
import { status } from './kinds.ts';
import { ListCutter } from './list-cutter.ts';
import { common, type Found, message, nested, position, readMessage } from './message.ts';
import { ObjectReader } from './object-reader.ts';
import { StringCache } from './string-cache.ts';
import { WireReader } from './wire.ts';

const watchEvent = message(common(1, 'type'), nested(2, 'object', message(position(1, 'raw'))));

/** The protobuf of an API server, for the objects of one resource. */
export function protobuf(
  resource: Watched,
  context: DecodeContext,
  strings: StringCache,
): Encoding {
  const objects = new ObjectReader(resource, context, strings);
  return {
    events: (bytesMax) => new FrameCutter(bytesMax),
    event: (bytes) => {
      try {
        return readEvent(bytes, resource, objects, strings);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        throw new StreamError('garbage', `the server sent what is no watch event: ${why}`);
      }
    },
    list: (itemBytesMax) => new ListCutter(itemBytesMax, strings),
    item: (bytes) => objects.read(bytes),
  };
}

function readEvent(
  bytes: Buffer,
  resource: Watched,
  objects: ObjectReader,
  strings: StringCache,
): WatchEvent {
  const reader = new WireReader(bytes, strings);
  const found = readMessage(reader, watchEvent);
  const type = watchEventTypes.find((known) => known === found.type);
  const { raw } = (found.object ?? {}) as Found;
  if (type === undefined || typeof raw !== 'number') throw new Error('it has no type or no object');
  const inner = unwrap(valueAt(reader, raw), strings);
  if (inner.kind === kindOf[resource]) return { type, object: objects.read(inner.bytes) };
  if (type === 'ERROR') return { type, object: readWhole(inner.bytes, status, strings) };
  throw new Error(`its object is of kind "${inner.kind}"`);
}

/** Reads a Status in its envelope; undefined when the body is none. */
export function readStatus(body: Buffer): RawObject | undefined {
  const strings = new StringCache();
  try {
    return readWhole(unwrap(body, strings).bytes, status, strings);
  } catch {
    return undefined;
  }
}
