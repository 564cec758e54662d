import {
  type Found,
  type Message,
  message,
  nested,
  position,
  readMessage,
  text,
} from './message.ts';
import type { StringCache } from './string-cache.ts';
import { WireError, WireReader } from './wire.ts';

/** The first bytes of every body, and of every object in an event: `k8s` and a zero. */
export const magic = Buffer.from('k8s\0', 'latin1');

/** Numbers of fields of runtime.Unknown. */
export const unknownFields = { typeMeta: 1, raw: 2 } as const;

export const typeMeta = message(text(2, 'kind'));

const unknown = message(
  nested(unknownFields.typeMeta, 'typeMeta', typeMeta),
  position(unknownFields.raw, 'raw'),
);

/** A message and the envelope around it. */
export interface Enveloped {
  /** `Service`; empty when the envelope does not name it. */
  readonly kind: string;
  /** The message itself. */
  readonly bytes: Buffer;
}

/** Takes a message out of its envelope. Throws a WireError when there is none. */
export function unwrap(bytes: Buffer, strings: StringCache): Enveloped {
  if (!bytes.subarray(0, magic.length).equals(magic)) throw new WireError('it is no protobuf');
  const reader = new WireReader(bytes, strings);
  reader.at = magic.length;
  const found = readMessage(reader, unknown);
  const { kind } = (found.typeMeta ?? {}) as Found;
  return {
    kind: typeof kind === 'string' ? kind : '',
    bytes: typeof found.raw === 'number' ? valueAt(reader, found.raw) : Buffer.alloc(0),
  };
}

/** The bytes of a field that `position` has read. */
export function valueAt(reader: WireReader, at: number): Buffer {
  reader.at = at;
  const length = reader.length();
  return reader.bytes.subarray(reader.at, reader.at + length);
}

/** The fields of a whole message. */
export function readWhole(bytes: Buffer, fields: Message, strings: StringCache): Found {
  return readMessage(new WireReader(bytes, strings), fields);
}
