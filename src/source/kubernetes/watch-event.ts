import { isRawObject, type RawObject, show, tryJSON } from '../decode/field-reader.ts';
import { initialEventsEndAnnotation } from '../decode/names.ts';
import { StreamError } from './errors.ts';

export const watchEventTypes = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const;

export interface WatchEvent {
  readonly type: (typeof watchEventTypes)[number];
  readonly object: RawObject;
}

/** Parses one line of a watch. Throws a StreamError if it is invalid. */
export function parseWatchEvent(line: Buffer): WatchEvent {
  const text = line.toString('utf8');
  const raw = tryJSON(text);
  const type = isRawObject(raw) ? watchEventTypes.find((known) => known === raw.type) : undefined;
  if (!isRawObject(raw) || type === undefined || !isRawObject(raw.object)) {
    throw new StreamError('garbage', `invalid watch event: ${show(text)}`);
  }
  return { type, object: raw.object };
}

/** The bookmark that ends the first part of a streaming list (KEP-3157). */
export function endsInitialEvents({ type, object }: WatchEvent): boolean {
  if (type !== 'BOOKMARK' || !isRawObject(object.metadata)) return false;
  const { annotations } = object.metadata;
  return isRawObject(annotations) && annotations[initialEventsEndAnnotation] === 'true';
}
