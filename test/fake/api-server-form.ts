/** The forms of the fake API server's answers: JSON and protobuf. */
import type { Watched } from '../../src/source/source.ts';
import {
  type Edit,
  kinds,
  type Raw,
  type StoredEvent,
  type StoredObject,
} from './api-server-store.ts';
import { encodeEvent, encodeList, encodeObject, encodeStatus } from './protobuf.ts';

export type Bytes = string | Buffer;

export interface AnswerForm {
  readonly type: string;
  readonly watchType: string;
  /** The body for a Status; `json` may end with a newline. */
  status(json: string): Bytes;
  /** One event of a watch. `stored`: the object with this text, whose bytes are cached. */
  event(type: string, resource: Watched, json: string, stored?: StoredObject): Bytes;
  /** An ERROR event. `line`: as JSON. */
  error(line: string): Bytes;
  /** The body of a list, in pieces. */
  list(resource: Watched, page: readonly StoredObject[], metadata: Raw): Iterable<Bytes>;
  /** The beginning of an event, with which a cut watch may end. */
  readonly partOfEvent: Bytes;
}

/** The least length of a list's pieces, except the last. */
const blockLength = 65_536;

export const jsonForm: AnswerForm = {
  type: 'application/json',
  watchType: 'application/json',
  status: (json) => json,
  event: (type, _resource, json) => `{"type":"${type}","object":${json}}\n`,
  error: (line) => line,
  *list(resource, page, metadata) {
    const { kind, apiVersion } = kinds[resource];
    const head = JSON.stringify({ kind: `${kind}List`, apiVersion, metadata }).slice(0, -1);
    let block = `${head},"items":[`;
    for (const [i, { json }] of page.entries()) {
      block += i === 0 ? json : `,${json}`;
      if (block.length < blockLength) continue;
      yield block;
      block = '';
    }
    yield `${block}]}\n`;
  },
  partOfEvent: '{"type":"ADDED","object":{"meta',
};

export const protobufForm: AnswerForm = {
  type: 'application/vnd.kubernetes.protobuf',
  watchType: 'application/vnd.kubernetes.protobuf;stream=watch',
  status: (json) => encodeStatus(JSON.parse(json)),
  event: (type, resource, json, stored) => {
    const { apiVersion, kind } = kinds[resource];
    const bytes =
      stored === undefined ? encodeObject(kind, JSON.parse(json)) : bytesOf(resource, stored);
    return encodeEvent(type, apiVersion, kind, bytes);
  },
  error: (line) =>
    encodeEvent('ERROR', 'v1', 'Status', encodeObject('Status', JSON.parse(line).object)),
  *list(resource, page, metadata) {
    const { apiVersion, kind } = kinds[resource];
    const items = page.map((object) => bytesOf(resource, object));
    yield encodeList(apiVersion, `${kind}List`, metadata, items);
  },
  partOfEvent: Buffer.from([0, 0, 1, 0, 0x0a, 5, 0x41]),
};

/** The bytes of stored objects, because lists and watches hold the same objects again and again. */
const objects = new WeakMap<StoredObject, Buffer>();

function bytesOf(resource: Watched, object: StoredObject): Buffer {
  let bytes = objects.get(object);
  if (bytes === undefined) {
    bytes = encodeObject(kinds[resource].kind, JSON.parse(object.json));
    objects.set(object, bytes);
  }
  return bytes;
}

/**
 * Makes the bytes of an object from those that it had before, where that is known how. To encode it
 * again when it is sent takes a hundred times as long.
 */
export function keepBytes({ before, after, edits = [] }: StoredEvent): void {
  const bytes = before && objects.get(before);
  const edited = bytes && withStrings(bytes, edits);
  if (edited !== undefined && after !== undefined && edits.length > 0) objects.set(after, edited);
}

/** Undefined when the strings have other lengths than before. */
function withStrings(bytes: Buffer, edits: readonly Edit[]): Buffer | undefined {
  const edited = Buffer.from(bytes);
  for (const { from, to } of edits) {
    // A string follows its length.
    const at = edited.indexOf(`${String.fromCharCode(from.length)}${from}`, 'latin1');
    if (at < 0 || from.length !== to.length) return undefined;
    edited.write(to, at + 1, 'latin1');
  }
  return edited;
}

/** The form that a request asks for first. */
export function formOf(accept: string | undefined): AnswerForm {
  return (accept ?? '').startsWith(protobufForm.type) ? protobufForm : jsonForm;
}
