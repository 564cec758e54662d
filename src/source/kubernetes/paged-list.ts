import { isRawObject } from '../decode/door.ts';
import type { Pacer } from '../pacer.ts';
import type { ApiStream } from './api-stream.ts';
import type { Query } from './client.ts';
import { ApiError, StreamError } from './errors.ts';
import { ListSplitter } from './stream.ts';

/** 50 million objects: a server that never ends its list is not read forever. */
const pagesMax = 100_000;

export interface ListReader {
  open(query: Query): Promise<ApiStream>;
  /** Called before the first item, and again when the list has to start over. */
  begin(): void;
  item(raw: unknown): void;
  /** An item that is too large, or no JSON: the list is not complete. */
  unreadable(reason: string): void;
}

export interface ListOptions {
  /** Objects in one page. */
  readonly pageSize: number;
  readonly objectBytesMax: number;
  /** `cached`: what the server has at hand will do. `recent`: nothing older than now. */
  readonly freshness: 'cached' | 'recent';
  readonly pacer: Pacer;
}

interface Page {
  readonly resourceVersion: string;
  /** Empty on the last page. */
  readonly next: string;
}

/** Reads a list, page by page and item by item. Resolves with its resourceVersion. */
export async function readList(reader: ListReader, options: ListOptions): Promise<string> {
  const { freshness, pageSize } = options;
  const first: Query = freshness === 'cached' ? { resourceVersion: '0' } : {};
  let query: Query = { ...first, limit: String(pageSize) };
  reader.begin();
  for (let pages = 0; pages < pagesMax; pages += 1) {
    try {
      const { resourceVersion, next } = await readPage(reader, query, options);
      if (next === '') return resourceVersion;
      query = { limit: String(pageSize), continue: next };
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 410) throw error;
      if (query.continue === undefined) throw error;
      // The list took longer than the server keeps it: once more, in one piece.
      query = {};
      reader.begin();
    }
  }
  throw new StreamError('garbage', `the list does not end after ${pagesMax} pages`);
}

async function readPage(
  reader: ListReader,
  query: Query,
  { objectBytesMax, pacer }: ListOptions,
): Promise<Page> {
  const splitter = new ListSplitter(objectBytesMax);
  const stream = await reader.open(query);
  for await (const chunk of stream.chunks()) {
    for (const item of splitter.push(chunk)) {
      if (item === 'oversized')
        reader.unreadable(`an object is larger than ${objectBytesMax} bytes`);
      else readItem(reader, item);
      if (pacer.due) await pacer.rest();
    }
  }
  return readEnvelope(splitter.envelope());
}

function readItem(reader: ListReader, bytes: Buffer): void {
  let raw: unknown;
  try {
    raw = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    reader.unreadable(`an object is no JSON: ${error instanceof Error ? error.message : error}`);
    return;
  }
  reader.item(raw);
}

/** An answer without a resourceVersion is no list, and surely not an empty one. */
function readEnvelope(envelope: unknown): Page {
  const metadata = isRawObject(envelope) ? envelope.metadata : undefined;
  const { resourceVersion, continue: next } = isRawObject(metadata) ? metadata : {};
  if (typeof resourceVersion !== 'string' || resourceVersion === '') {
    throw new StreamError('garbage', 'the answer is no list');
  }
  return { resourceVersion, next: typeof next === 'string' ? next : '' };
}
