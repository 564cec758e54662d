import { type Found, goInto, type Message, message, readMessage, text, textOf } from './message.ts';
import type { StringCache } from './string-cache.ts';
import { WireError, WireReader } from './wire.ts';

/** The first bytes of every body, and of every object in an event: `k8s` and a zero. */
export const magic = Buffer.from('k8s\0', 'latin1');

/** Numbers of fields of runtime.Unknown. */
export const unknownFields = { typeMeta: 1, raw: 2 } as const;

/** The number of a field of runtime.TypeMeta. */
const kindField = 2;

export const typeMeta = message(text(kindField, 'kind'));

/**
 * Moves from an envelope, which ends at the reader's end, into its message. Returns the kind of the
 * message, such as `Service`; empty if the envelope does not name it. Throws a WireError if it
 * is missing.
 */
export function unwrap(reader: WireReader): string {
  const { at, bytes, end } = reader;
  const isMagic = end - at >= magic.length && bytes.readUInt32BE(at) === magic.readUInt32BE();
  if (!isMagic) throw new WireError('it is not protobuf');
  const from = at + magic.length;
  reader.at = from;
  const kind = goInto(reader, unknownFields.typeMeta) ? (textOf(reader, kindField) ?? '') : '';
  reader.at = from;
  reader.end = end;
  if (!goInto(reader, unknownFields.raw)) reader.at = end;
  return kind;
}

/** The fields of a complete message. */
export function readWhole(bytes: Buffer, fields: Message, strings: StringCache): Found {
  return readMessage(new WireReader(bytes, strings), fields);
}
