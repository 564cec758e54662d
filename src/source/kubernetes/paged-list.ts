import type { Pacer } from '../../time/pacer.ts';
import { isText, objectOf } from '../decode/field-reader.ts';
import type { ApiStream } from './api-stream.ts';
import type { Query } from './client.ts';
import type { Encoding, Encodings } from './encoding.ts';
import { ApiError, StreamError } from './errors.ts';

/** 5 million objects: the limit for a server that never ends its list. */
const pagesMax = 10_000;
/** The most characters of a position in a list. The API server's have at most 600. */
const positionMax = 2048;

interface PageReader {
  open(query: Query): Promise<ApiStream>;
  /** Takes an item, in steps. */
  item(raw: unknown): Iterable<undefined>;
  /** An item that is too large, or not an object: the list is not complete. */
  unreadable(reason: string): void;
}

interface ListReader extends PageReader {
  /** Called before the first item, and again when the list starts again. */
  begin(): void;
}

export interface PageOptions {
  readonly encodings: Encodings;
  readonly objectBytesMax: number;
  readonly pacer: Pacer;
}

interface ListOptions extends PageOptions {
  /** Objects in one page. */
  readonly pageSize: number;
  /** A list that is not complete after this time fails. */
  readonly maxMs: number;
  /** `cached`: the server may answer from its cache. `recent`: the list must be up to date. */
  readonly freshness: 'cached' | 'recent';
}

interface Page {
  readonly resourceVersion: string;
  /** Empty on the last page. */
  readonly next: string;
}

/** Reads a list, page by page and item by item. Resolves with its resourceVersion. */
export async function readList(reader: ListReader, options: ListOptions): Promise<string> {
  const { freshness, maxMs, pageSize } = options;
  const untilMs = performance.now() + maxMs;
  const first: Query = freshness === 'cached' ? { resourceVersion: '0' } : {};
  let query: Query = { ...first, limit: String(pageSize) };
  const seen = new Set<string>();
  reader.begin();
  for (let pages = 0; pages < pagesMax; pages += 1) {
    try {
      const { resourceVersion, next } = await readPage(reader, query, options, untilMs);
      if (next === '') return resourceVersion;
      if (seen.has(next)) throw new StreamError('garbage', 'the list goes in circles');
      seen.add(next);
      query = { limit: String(pageSize), continue: next };
    } catch (error) {
      if (!(error instanceof ApiError) || ![400, 410].includes(error.status)) throw error;
      if (query.continue === undefined) throw error;
      // The list has expired at the server, or another server has taken over: reads it again, in
      // one request.
      query = {};
      reader.begin();
    }
  }
  throw new StreamError('garbage', `the list does not end after ${pagesMax} pages`);
}

/**
 * Reads a list in one request, which the server answers from its cache once that has reached
 * `resourceVersion`. Resolves with the list's resourceVersion.
 */
export async function readListSince(
  resourceVersion: string,
  reader: PageReader,
  options: PageOptions & Pick<ListOptions, 'maxMs'>,
): Promise<string> {
  const untilMs = performance.now() + options.maxMs;
  const query = { resourceVersion, resourceVersionMatch: 'NotOlderThan' };
  const page = await readPage(reader, query, options, untilMs);
  if (page.next !== '') throw new StreamError('garbage', 'the list has pages');
  return page.resourceVersion;
}

/** The server's current resourceVersion. */
export async function readVersion(open: PageReader['open'], options: PageOptions): Promise<string> {
  const reader = { open, item: () => [], unreadable: () => {} };
  return (await readPage(reader, { limit: '1' }, options, Number.POSITIVE_INFINITY))
    .resourceVersion;
}

async function readPage(
  reader: PageReader,
  query: Query,
  { encodings, objectBytesMax, pacer }: PageOptions,
  untilMs: number,
): Promise<Page> {
  const stream = await reader.open(query);
  const encoding = encodings[stream.form];
  const splitter = encoding.list(objectBytesMax);
  for await (const chunk of stream.chunks()) {
    for (const item of splitter.push(chunk)) {
      if (item === 'oversized')
        reader.unreadable(`an object is larger than ${objectBytesMax} bytes`);
      else for (const _ of readItem(reader, encoding, item)) if (pacer.due) await pacer.rest();
      if (pacer.due) await pacer.rest();
    }
    if (performance.now() > untilMs) throw new StreamError('garbage', 'the list does not end');
  }
  // One turn later its connection is free for the next request.
  await pacer.rest();
  return readEnvelope(splitter.envelope());
}

function* readItem(
  reader: PageReader,
  encoding: Encoding,
  bytes: Buffer,
): Generator<undefined, void> {
  let raw: unknown;
  try {
    raw = yield* encoding.item(bytes);
  } catch (error) {
    reader.unreadable(error instanceof Error ? error.message : String(error));
    return;
  }
  yield* reader.item(raw);
}

/** An answer without a resourceVersion is not a list, and must not be taken for an empty one. */
function readEnvelope(envelope: unknown): Page {
  const { resourceVersion, continue: next } = objectOf(objectOf(envelope).metadata);
  const token = typeof next === 'string' ? next : '';
  const isPosition = isText(resourceVersion) && resourceVersion.length <= positionMax;
  if (!isPosition || token.length > positionMax) {
    throw new StreamError('garbage', 'the answer is not a list');
  }
  return { resourceVersion, next: token };
}
