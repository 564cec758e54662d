import { isRawObject, objectOf, type RawObject, show } from '../decode/field-reader.ts';
import { initialEventsEndAnnotation } from '../decode/names.ts';
import { StreamError } from './errors.ts';
import { parseJSON } from './values.ts';

export const watchEventTypes = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const;

export interface WatchEvent {
  readonly type: (typeof watchEventTypes)[number];
  readonly object: RawObject;
}

/** Parses one line of a watch. Throws a StreamError if it is invalid. */
export function parseWatchEvent(line: Buffer): WatchEvent {
  try {
    const raw = objectOf(parseJSON(line));
    const type = watchEventTypes.find((known) => known === raw.type);
    if (type !== undefined && isRawObject(raw.object)) return { type, object: raw.object };
    throw new Error('it has no type or no object');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StreamError('garbage', `invalid watch event: ${reason}: ${startOf(line)}`);
  }
}

/** The first characters of bytes that cannot be read, for errors. */
export function startOf(bytes: Buffer): string {
  return show(bytes.toString('utf8', 0, 200));
}

/** The bookmark that ends the first part of a streaming list (KEP-3157). */
export function endsInitialEvents({ type, object }: WatchEvent): boolean {
  if (type !== 'BOOKMARK' || !isRawObject(object.metadata)) return false;
  const { annotations } = object.metadata;
  return isRawObject(annotations) && annotations[initialEventsEndAnnotation] === 'true';
}
