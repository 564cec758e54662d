import type { RawObject } from '../decode/door.ts';
import type { Pacer } from '../pacer.ts';
import type { Resource, SourceSink } from '../source.ts';
import { ApiStream } from './api-stream.ts';
import { Backoff, pause } from './backoff.ts';
import type { ApiClient, Query } from './client.ts';
import { type Delivery, resourceVersionOf } from './delivery.ts';
import { ApiError, StreamError, statusError } from './errors.ts';
import { readList } from './paged-list.ts';
import { Relief } from './relief.ts';
import { isNewer } from './resource-version.ts';
import { LineFramer } from './stream.ts';
import type { ReflectorTiming } from './timing.ts';
import { endsInitialEvents, parseWatchEvent, type WatchEvent } from './watch-event.ts';

/** What to list and watch. */
export interface Target {
  readonly resource: Resource;
  /** `/api/v1/services` */
  readonly path: string;
  /** Selectors. */
  readonly query: Query;
  /** `optional`: a server that does not know it, or forbids it, is asked again rarely. */
  readonly presence: 'required' | 'optional';
}

export interface ReflectorParts {
  readonly client: ApiClient;
  readonly delivery: Delivery;
  readonly sink: SourceSink;
  /** Shared by all reflectors of a process. */
  readonly pacer: Pacer;
  readonly timing: ReflectorTiming;
}

/** A list that is being read. */
interface List {
  /** What it holds; undefined when all that is delivered is of this list. */
  readonly keys: Set<string> | undefined;
  /** One of its objects could not be read. */
  unreadable: boolean;
}

interface Watch {
  readonly stream: ApiStream;
  readonly reliefAfterMs: number;
}

/** A watch may take this long to begin, when earlier ones were given up too soon. */
const startMaxMs = 300_000;
/** Watches that the server refuses in a row before a new list is the way out. */
const refusalsMax = 4;
/** Lists further apart than this are no storm. */
const calmMs = 60_000;
/** A watch that lived for less was no success. */
const aliveMs = 1000;

/**
 * Keeps a Delivery equal to one resource of the API server, whatever happens to the connection.
 * Lists stream where the server can (KEP-3157), else they come in pages. Nothing is deleted on a
 * partial list; resourceVersions are opaque.
 */
export class Reflector {
  readonly #target: Target;
  readonly #parts: ReflectorParts;
  readonly #backoff: Backoff;
  readonly #listBackoff: Backoff;
  #listStyle: 'streaming' | 'paged' = 'streaming';
  #listedAtMs = Number.NEGATIVE_INFINITY;
  #list: List | undefined;
  /** Where the watch stands; undefined = only a list can tell. */
  #resourceVersion: string | undefined;
  #synced = false;
  /** When the server last said anything about this, or we began to ask. */
  #lastWordMs: number | undefined;
  #startMaxMs: number;
  #refusals = 0;
  /** Reasons told since things last went well. */
  readonly #told = new Set<string>();

  constructor(target: Target, parts: ReflectorParts) {
    const { backoffBaseMs, backoffMaxMs, idleTimeoutMs } = parts.timing;
    this.#target = target;
    this.#parts = parts;
    this.#backoff = new Backoff(backoffBaseMs, backoffMaxMs);
    this.#listBackoff = new Backoff(backoffBaseMs, backoffMaxMs);
    this.#startMaxMs = idleTimeoutMs;
  }

  /** See `Source.silenceMs`. */
  get silenceMs(): number | undefined {
    return this.#lastWordMs === undefined ? undefined : performance.now() - this.#lastWordMs;
  }

  /** Resolves when `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#lastWordMs = performance.now();
    while (!signal.aborted) {
      try {
        await this.#session(signal);
      } catch (error) {
        if (!signal.aborted) await this.#recover(error, signal);
      }
    }
  }

  /** A list if one is needed, then watches, until one ends or fails. */
  async #session(signal: AbortSignal): Promise<void> {
    this.#list = undefined;
    let watch: Watch | undefined;
    if (this.#resourceVersion === undefined) watch = await this.#beginList(signal);
    watch ??= await this.#openWatch(signal);
    while (watch !== undefined) watch = await this.#follow(watch, signal);
  }

  /** The watch that brings a streaming list; undefined when a paged list is complete. */
  async #beginList(signal: AbortSignal): Promise<Watch | undefined> {
    if (performance.now() - this.#listedAtMs > calmMs) this.#listBackoff.reset();
    else await pause(this.#listBackoff.nextMs(), signal);
    this.#listedAtMs = performance.now();
    if (this.#listStyle === 'streaming') {
      try {
        this.#startList();
        const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' };
        return await this.#openWatch(signal, query);
      } catch (error) {
        if (!(error instanceof ApiError) || ![400, 422].includes(error.status)) throw error;
        this.#listStyle = 'paged';
      }
    }
    await this.#readPages(signal);
    return undefined;
  }

  async #readPages(signal: AbortSignal): Promise<void> {
    const { delivery, pacer, timing } = this.#parts;
    const reader = {
      open: (query: Query) => this.#open(query, signal),
      begin: () => this.#startList(),
      item: (raw: unknown) => this.#listItem(raw),
      unreadable: (reason: string) => this.#unreadable(reason),
    };
    const { pageSize, objectBytesMax } = timing;
    // An old cache may know less than we do, unless we know nothing.
    const freshness = delivery.size === 0 && !this.#synced ? 'cached' : 'recent';
    const options = { pageSize, objectBytesMax, freshness, pacer } as const;
    this.#completeList(await readList(reader, options));
  }

  #startList(): void {
    const isFirst = this.#parts.delivery.size === 0;
    this.#list = { keys: isFirst ? undefined : new Set(), unreadable: false };
  }

  #listItem(raw: unknown): void {
    const key = this.#parts.delivery.put(raw);
    if (key !== undefined) this.#list?.keys?.add(key);
    else if (this.#list !== undefined) this.#list.unreadable = true;
  }

  #unreadable(reason: string): void {
    if (this.#list !== undefined) this.#list.unreadable = true;
    this.#tell(reason);
  }

  /** What the list did not hold is gone, if we could read all of it. */
  #completeList(resourceVersion: string): void {
    const { keys, unreadable } = this.#list ?? { keys: undefined, unreadable: false };
    if (keys !== undefined && !unreadable) this.#parts.delivery.retain(keys);
    this.#list = undefined;
    this.#resourceVersion = resourceVersion;
    this.#goesWell();
    if (this.#synced) return;
    this.#synced = true;
    this.#parts.sink.synced(this.#target.resource);
  }

  async #openWatch(signal: AbortSignal, list?: Query): Promise<Watch> {
    const { watchSecondsMin, watchSecondsMax, overlapMs } = this.#parts.timing;
    const range = watchSecondsMax - watchSecondsMin;
    const seconds = Math.round(watchSecondsMin + Math.random() * range);
    const query = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(seconds),
      ...(list ?? { resourceVersion: this.#resourceVersion ?? '' }),
    };
    const stream = await this.#open(query, signal);
    return { stream, reliefAfterMs: Math.max(seconds * 500, seconds * 1000 - overlapMs) };
  }

  async #open(query: Query, signal: AbortSignal): Promise<ApiStream> {
    const { client, timing } = this.#parts;
    const { path, query: selectors } = this.#target;
    try {
      const stream = await ApiStream.open(
        client,
        path,
        { ...selectors, ...query },
        {
          startMaxMs: this.#startMaxMs,
          silenceMaxMs: timing.idleTimeoutMs,
          signal,
          onWord: () => {
            this.#lastWordMs = performance.now();
          },
        },
      );
      this.#startMaxMs = timing.idleTimeoutMs;
      return stream;
    } catch (error) {
      // A server that needs longer each time must get it once, or we never see anything.
      const late = error instanceof StreamError && error.kind === 'silent';
      if (late) this.#startMaxMs = Math.min(startMaxMs, this.#startMaxMs * 2);
      throw error;
    }
  }

  /** Reads a watch to its end. Resolves with the one that was opened to relieve it, if any. */
  async #follow(watch: Watch, signal: AbortSignal): Promise<Watch | undefined> {
    const beganAtMs = performance.now();
    const relief = new Relief(
      watch.reliefAfterMs,
      () => this.#openRelief(signal),
      () => watch.stream.stop(),
    );
    let failure: unknown;
    try {
      await this.#read(watch.stream);
    } catch (error) {
      failure = error;
    }
    if (performance.now() - beganAtMs > aliveMs) this.#backoff.reset();
    else failure ??= new StreamError('cut', 'the watch ended at once');
    const next = relief.take();
    if (next !== undefined && this.#resourceVersion !== undefined) {
      return await next;
    }
    next?.then(({ stream }) => stream.stop(), ignore);
    if (failure !== undefined) throw failure;
    return undefined;
  }

  async #openRelief(signal: AbortSignal): Promise<Watch> {
    if (this.#resourceVersion === undefined) throw new Error('there is no list to go on from');
    return this.#openWatch(signal);
  }

  async #read(stream: ApiStream): Promise<void> {
    const { pacer, timing } = this.#parts;
    const framer = new LineFramer(timing.objectBytesMax);
    for await (const chunk of stream.chunks()) {
      for (const line of framer.push(chunk)) {
        if (line === 'oversized') this.#oversized();
        else this.#take(this.#parse(line));
        if (pacer.due) await pacer.rest();
      }
    }
    if (this.#list !== undefined) throw new StreamError('cut', 'the list ended in the middle');
    if (framer.pendingBytes > 0) {
      throw new StreamError('cut', 'the watch ended in the middle of an object');
    }
  }

  /** In a list one object is missing; in a watch we do not know what happened to which. */
  #oversized(): void {
    const reason = `an object is larger than ${this.#parts.timing.objectBytesMax} bytes`;
    if (this.#list !== undefined) {
      this.#unreadable(reason);
      return;
    }
    this.#resourceVersion = undefined;
    throw new StreamError('garbage', reason);
  }

  #parse(line: Buffer): WatchEvent {
    try {
      return parseWatchEvent(line);
    } catch (error) {
      this.#resourceVersion = undefined;
      throw error;
    }
  }

  #take(event: WatchEvent): void {
    if (event.type === 'ERROR') this.#fail(event.object);
    if (this.#list !== undefined) this.#takeListed(event);
    else this.#takeNews(event);
  }

  #takeListed(event: WatchEvent): void {
    const key = event.type === 'DELETED' ? this.#parts.delivery.keyOf(event.object) : undefined;
    if (endsInitialEvents(event)) {
      this.#completeList(resourceVersionOf(event.object));
    } else if (event.type === 'BOOKMARK') {
      // A server that took the request for an ordinary watch.
      throw new StreamError('garbage', 'the server does not know streaming lists');
    } else if (key !== undefined) {
      this.#list?.keys?.delete(key);
      this.#parts.delivery.remove(key);
    } else {
      this.#listItem(event.object);
    }
  }

  /**
   * A watch that was opened while another one ran repeats what that one brought, and a confused
   * server may send anything again: objects must not become, not even for a moment, what they were.
   */
  #takeNews({ type, object }: WatchEvent): void {
    const { delivery } = this.#parts;
    const resourceVersion = resourceVersionOf(object);
    if (!isNewer(resourceVersion, this.#resourceVersion)) return;
    if (type === 'DELETED') delivery.remove(delivery.keyOf(object) ?? '');
    else if (type !== 'BOOKMARK') delivery.put(object);
    if (resourceVersion !== '') this.#resourceVersion = resourceVersion;
    this.#goesWell();
  }

  /** An ERROR event. All but "too many requests" mean that this watch cannot be resumed. */
  #fail(status: RawObject): never {
    const error = statusError(status, { status: 500, words: 'the watch failed' });
    if (error.status !== 429) this.#resourceVersion = undefined;
    throw error;
  }

  #goesWell(): void {
    this.#backoff.reset();
    this.#told.clear();
    this.#refusals = 0;
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    const { timing } = this.#parts;
    if (this.#list !== undefined && error instanceof StreamError && error.kind !== 'cut') {
      // Pages need less of the server, and of what is in between.
      this.#listStyle = 'paged';
    }
    const delayMs = this.#backoff.nextMs();
    if (!(error instanceof ApiError)) {
      this.#tell(error instanceof Error ? error.message : String(error));
      await pause(delayMs, signal);
      return;
    }
    if (this.#target.presence === 'optional' && [403, 404].includes(error.status)) {
      this.#tell(`not available, gone on without: ${error.message}`);
      this.#lastWordMs = undefined;
      if (!this.#synced) this.#parts.sink.synced(this.#target.resource);
      this.#synced = true;
      await pause(timing.absentRetryMs, signal);
      return;
    }
    if (this.#refuses(error)) this.#resourceVersion = undefined;
    this.#tell(error.message);
    await pause(delayMs + (error.retryAfterMs ?? 0), signal);
  }

  /** Whether going on from this resourceVersion is hopeless. */
  #refuses({ status }: ApiError): boolean {
    if (status === 410) return true;
    if ([401, 403, 429].includes(status)) return false;
    this.#refusals += 1;
    return this.#refusals >= refusalsMax;
  }

  #tell(reason: string): void {
    if (this.#told.has(reason)) return;
    this.#told.add(reason);
    this.#parts.sink.problem({
      subject: `${this.#target.resource} watch`,
      field: undefined,
      reason,
    });
  }
}

function ignore(): void {}
