import { type Backoff, requestBackoff } from '../../time/backoff.ts';
import { pause } from '../../time/clock.ts';
import type { RawObject } from '../decode/field-reader.ts';
import type { Condition, ListMethod, Watched } from '../source.ts';
import { ApiStream } from './api-stream.ts';
import type { Query } from './client.ts';
import { Comparison, type ComparisonParts } from './comparison.ts';
import { resourceVersionOf } from './delivery.ts';
import {
  ApiError,
  isAbsence,
  isGarbage,
  isSilence,
  retryAfterMs,
  StreamError,
  statusError,
} from './errors.ts';
import { readList } from './paged-list.ts';
import { type ReflectorSink, ResourceStatus } from './resource-status.ts';
import { isNewer, RollbackProbe } from './rollback-probe.ts';
import { UnfinishedList } from './unfinished-list.ts';
import { endsInitialEvents, type WatchEvent } from './watch-event.ts';
import { WatchFlow } from './watch-flow.ts';

/** What to list and watch. */
export interface Target {
  readonly resource: Watched;
  /** `/api/v1/services` */
  readonly path: string;
  /** Selectors. */
  readonly query: Query;
  /** The URL to read the resource's current version from. Default: the same. */
  readonly part?: Pick<Target, 'path' | 'query'>;
  /** `optional`: if the server does not know or forbids it, it is tried again rarely. */
  readonly presence: 'required' | 'optional';
}

interface ReflectorParts extends ComparisonParts {
  readonly sink: ReflectorSink;
  /** The server went back: what was listed before it was lost, at `lostAtMs`, may never be true. */
  readonly wentBack?: (lostAtMs: number) => void;
}

interface Watch {
  readonly stream: ApiStream;
  readonly askedAtMs: number;
  /** See `WatchLength`. */
  readonly reliefAfterMs: number | undefined;
}

const wentBack = 'the server is at an earlier time than it was';

/** The longest time for a watch to begin, after earlier ones were abandoned too soon. */
const startMaxMs = 300_000;
/** After this number of consecutive refused watches, a new list is made. */
const refusalsMax = 4;
/** Lists that are further apart than this need no backoff. */
const calmMs = 60_000;
/** A watch that ended sooner and delivered nothing new counts as a failure. */
const aliveMs = 1000;

/**
 * Keeps a Delivery equal to one resource of the API server, whatever happens to the connection.
 * Lists are streams if the server supports that (KEP-3157), else they are paged. A partial list
 * deletes nothing.
 */
export class Reflector {
  readonly #target: Target;
  readonly #parts: ReflectorParts;
  readonly #backoff: Backoff;
  readonly #listBackoff: Backoff;
  readonly #absentBackoff: Backoff;
  readonly #methods: ListMethods;
  readonly #status: ResourceStatus;
  #list: UnfinishedList | undefined;
  /** The position of the watch; undefined = a list is needed. */
  #resourceVersion: string | undefined;
  #startMaxMs: number;
  /** The stream of the watch that is read. */
  #stream: ApiStream | undefined;
  /** The next session begins with a list. */
  #mustList = false;
  #refusals = 0;
  readonly #flow: WatchFlow;
  readonly #probe: RollbackProbe;
  readonly #comparison: Comparison;

  constructor(target: Target, parts: ReflectorParts) {
    const { timing, sink } = parts;
    this.#target = target;
    this.#parts = parts;
    this.#backoff = requestBackoff(timing.backoffBaseMs, timing.backoffMaxMs);
    this.#listBackoff = requestBackoff(timing.backoffBaseMs, timing.backoffMaxMs);
    this.#absentBackoff = requestBackoff(timing.absentRetryBaseMs, timing.absentRetryMaxMs);
    this.#methods = new ListMethods(timing.pagesFirstMs);
    this.#status = new ResourceStatus(target.resource, sink);
    this.#flow = new WatchFlow(timing);
    this.#probe = new RollbackProbe(timing);
    this.#comparison = new Comparison(target, parts);
    this.#startMaxMs = timing.idleTimeoutMs;
  }

  get condition(): Condition {
    return this.#status.condition;
  }

  /** Delivers all objects again, while the watch continues. */
  readAgain(): void {
    this.#comparison.now();
  }

  /** Makes a list, unless the last one is newer than `lostAtMs` of `performance.now`. */
  listAgain(lostAtMs: number): void {
    if (this.#methods.listedAtMs > lostAtMs || this.#resourceVersion === undefined) return;
    this.#status.report(wentBack);
    this.#mustList = true;
    this.#stream?.stop();
  }

  /** Resolves when `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#status.asked();
    const position = (): string | undefined => this.#resourceVersion;
    const corrected = (objects: number): void => this.#status.corrected(objects);
    const comparing = this.#comparison.run(position, corrected, signal);
    while (!signal.aborted) {
      try {
        await this.#session(signal);
      } catch (error) {
        if (!signal.aborted) await this.#recover(error, signal);
      }
    }
    await comparing;
  }

  /** Makes a list, if one is needed, and then watches until a watch ends or fails. */
  async #session(signal: AbortSignal): Promise<void> {
    this.#list = undefined;
    let watch: Watch | undefined;
    if (this.#mustList) this.#resourceVersion = undefined;
    const position = this.#resourceVersion;
    if (position === undefined) watch = await this.#beginList(signal);
    else if ((await this.#isSetBack(position, signal)) || this.#mustList) return;
    watch ??= await this.#openWatch(signal);
    while (watch !== undefined) watch = await this.#follow(watch, signal);
  }

  /** The watch that delivers a streaming list; undefined if a paged list is complete. */
  async #beginList(signal: AbortSignal): Promise<Watch | undefined> {
    const { fallbackReason, listedAtMs } = this.#methods;
    if (performance.now() - listedAtMs > calmMs) this.#listBackoff.reset();
    else if (fallbackReason === undefined) await pause(this.#listBackoff.failed(), signal);
    this.#comparison.stop();
    this.#mustList = false;
    const method = this.#methods.choose(performance.now());
    this.#list = new UnfinishedList(method, this.#parts.delivery);
    if (method === 'streaming') {
      const query = { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' };
      return await this.#openWatch(signal, query);
    }
    await this.#readPages(signal);
    return undefined;
  }

  async #readPages(signal: AbortSignal): Promise<void> {
    const { delivery, encodings, pacer, timing } = this.#parts;
    const reader = {
      open: (query: Query) => this.#open(query, signal),
      begin: () => this.#list?.restart(),
      item: (raw: unknown) => this.#list?.put(raw) ?? [],
      unreadable: (reason: string) => this.#unreadable(reason),
    };
    const { pagedListMaxMs: maxMs, pageSize, objectBytesMax } = timing;
    // A cache may be older than what is known, except if nothing is known yet.
    const isFirst = delivery.size === 0 && !this.#status.synced;
    const freshness = isFirst && !this.#methods.hasCacheFailed ? 'cached' : 'recent';
    const options = { encodings, maxMs, pageSize, objectBytesMax, freshness, pacer } as const;
    this.#completeList(await readList(reader, options));
  }

  #unreadable(reason: string): void {
    this.#list?.unreadable();
    this.#status.report(reason);
  }

  #completeList(resourceVersion: string): void {
    const list = this.#list;
    if (list === undefined) return;
    if (resourceVersion === '') throw new StreamError('garbage', 'the list has no version');
    list.complete();
    this.#list = undefined;
    this.#resourceVersion = resourceVersion;
    this.#listed(list.method, 'complete', this.#methods.fallbackReason);
    this.#methods.succeeded(list.method, performance.now());
    this.#refusals = 0;
    if (list.method === 'streaming') this.#goesWell();
    this.#status.markSynced();
  }

  #listed(method: ListMethod, result: 'complete' | 'failed', reason: string | undefined): void {
    this.#parts.sink.listed({ resource: this.#target.resource, method, result, reason });
  }

  async #isSetBack(position: string, signal: AbortSignal): Promise<boolean> {
    const { encodings, pacer, timing } = this.#parts;
    const open = (query: Query, limit: AbortSignal) => this.#open(query, limit, this.#target.part);
    const options = { encodings, objectBytesMax: timing.objectBytesMax, pacer };
    const { isMute } = this.#flow;
    const lostAtMs = await this.#probe.finds(position, isMute, open, options, signal);
    if (lostAtMs === 'unknown') this.#flow.doubted();
    if (typeof lostAtMs !== 'number') return false;
    this.#status.report(wentBack);
    this.#resourceVersion = undefined;
    this.#parts.wentBack?.(lostAtMs);
    return true;
  }

  async #openWatch(signal: AbortSignal, list?: Query): Promise<Watch> {
    const { seconds, reliefAfterMs } = this.#flow.length(list === undefined ? 'news' : 'list');
    const query = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(seconds),
      ...(list ?? { resourceVersion: this.#resourceVersion ?? '' }),
    };
    const askedAtMs = performance.now();
    return { stream: await this.#open(query, signal), askedAtMs, reliefAfterMs };
  }

  async #open(
    query: Query,
    signal: AbortSignal,
    { path, query: selectors }: NonNullable<Target['part']> = this.#target,
  ): Promise<ApiStream> {
    const { client, timing } = this.#parts;
    const isStreamingList = this.#list?.method === 'streaming';
    const waitsForStart = !isStreamingList && query.limit !== '1';
    const options = {
      startMaxMs: isStreamingList ? timing.listIdleMs : this.#startMaxMs,
      silenceMaxMs: isStreamingList ? timing.listIdleMs : timing.idleTimeoutMs,
      signal,
      onWord: () => this.#status.heard(),
    };
    try {
      const stream = await ApiStream.open(client, path, { ...selectors, ...query }, options);
      if (waitsForStart) this.#startMaxMs = timing.idleTimeoutMs;
      this.#absentBackoff.reset();
      return stream;
    } catch (error) {
      if (waitsForStart && isSilence(error)) {
        // The next watch gets twice the time, so that a slow server succeeds in the end.
        this.#startMaxMs = Math.min(startMaxMs, this.#startMaxMs * 2);
        this.#flow.fellSilent();
      }
      throw error;
    }
  }

  /** Reads a watch to its end. Resolves to the next watch, if it was opened in the meantime. */
  async #follow(watch: Watch, signal: AbortSignal): Promise<Watch | undefined> {
    const nextWatch = new NextWatch(
      watch.reliefAfterMs,
      () => this.#openRelief(signal),
      () => watch.stream.stop(),
    );
    this.#flow.began(watch.askedAtMs);
    const position = this.#resourceVersion;
    this.#stream = watch.stream;
    if (this.#mustList) watch.stream.stop();
    let failure: unknown;
    try {
      await this.#read(watch.stream);
      this.#flow.ended();
    } catch (error) {
      // It is not known which object the event was about.
      if (isGarbage(error)) this.#resourceVersion = undefined;
      // A silent watch is not a problem yet: a shorter one will show whether the server is alive.
      const isExpected = isSilence(error) && this.#list === undefined && this.#flow.fellSilent();
      failure = isExpected ? undefined : error;
    }
    const isShort = performance.now() - watch.askedAtMs < aliveMs;
    if (isShort && [position, undefined].includes(this.#resourceVersion)) {
      failure ??= new StreamError('cut', 'the watch ended immediately');
    } else if (failure === undefined) {
      this.#goesWell();
    } else {
      this.#backoff.reset();
    }
    const next = nextWatch.take();
    const continues = this.#resourceVersion !== undefined && !this.#mustList;
    if (next !== undefined && continues) return await next;
    next?.then(({ stream }) => stream.stop(), ignore);
    if (failure !== undefined && !this.#mustList) throw failure;
    return undefined;
  }

  async #openRelief(signal: AbortSignal): Promise<Watch> {
    if (this.#resourceVersion === undefined) throw new Error('there is no list to continue from');
    return this.#openWatch(signal);
  }

  async #read(stream: ApiStream): Promise<void> {
    const { encodings, pacer, timing } = this.#parts;
    const encoding = encodings[stream.form];
    const events = encoding.events(timing.objectBytesMax);
    for await (const chunk of stream.chunks()) {
      this.#flow.heard();
      pacer.begin();
      for (const bytes of events.push(chunk)) {
        if (bytes === 'oversized') this.#oversized();
        else {
          const steps = this.#take(encoding.event(bytes), stream);
          for (const _ of steps) if (pacer.due) await pacer.rest();
        }
        if (pacer.due) await pacer.rest();
      }
      if (this.#list?.isStuck(timing.listIdleMs, timing.listMaxMs)) {
        throw new StreamError('garbage', 'the list does not end');
      }
    }
    if (this.#list !== undefined) throw new StreamError('cut', 'the list ended in the middle');
    if (events.pendingBytes > 0) {
      throw new StreamError('cut', 'the watch ended in the middle of an object');
    }
  }

  /** In a list one object is missing. In a watch it is not known which object has changed. */
  #oversized(): void {
    const reason = `an object is larger than ${this.#parts.timing.objectBytesMax} bytes`;
    if (this.#list !== undefined) {
      this.#unreadable(reason);
      return;
    }
    throw new StreamError('garbage', reason);
  }

  *#take(read: Generator<undefined, WatchEvent>, stream: ApiStream): Generator<undefined, void> {
    const event = yield* read;
    if (event.type === 'ERROR') this.#fail(event.object);
    if (this.#list !== undefined) yield* this.#takeListed(event, this.#list, stream);
    else yield* this.#takeNews(event);
  }

  *#takeListed(
    event: WatchEvent,
    list: UnfinishedList,
    stream: ApiStream,
  ): Generator<undefined, void> {
    const key = event.type === 'DELETED' ? this.#parts.delivery.keyOf(event.object) : undefined;
    if (endsInitialEvents(event)) {
      this.#completeList(resourceVersionOf(event.object));
      this.#flow.proven();
      stream.allow(this.#parts.timing.idleTimeoutMs);
    } else if (event.type === 'BOOKMARK') {
      throw new StreamError('garbage', 'the server does not know streaming lists');
    } else if (key !== undefined) {
      list.remove(key);
    } else {
      yield* list.put(event.object);
    }
  }

  /**
   * Applies an event if it is new: a watch that was opened while another one ran repeats its
   * events, and an object must not return to an older state, even for a moment.
   */
  *#takeNews({ type, object }: WatchEvent): Generator<undefined, void> {
    const { delivery } = this.#parts;
    const resourceVersion = resourceVersionOf(object);
    if (!isNewer(resourceVersion, this.#resourceVersion)) return;
    if (type !== 'BOOKMARK') this.#comparison.changes(delivery.keyOf(object) ?? '');
    if (type === 'DELETED') delivery.remove(delivery.keyOf(object) ?? '');
    else if (type !== 'BOOKMARK') (yield* delivery.decode(object))();
    if (resourceVersion !== '') this.#resourceVersion = resourceVersion;
    this.#goesWell();
  }

  /** Throws for an ERROR event. After any but "too many requests" the watch can't be resumed. */
  #fail(status: RawObject): never {
    const error = statusError(status, { status: 500, words: 'the watch failed' });
    if (error.status !== 429) this.#resourceVersion = undefined;
    throw error;
  }

  #goesWell(): void {
    this.#backoff.reset();
    this.#status.wentWell();
    this.#refusals = 0;
  }

  async #recover(error: unknown, signal: AbortSignal): Promise<void> {
    if (!isOrderly(error) && !isSilence(error)) this.#probe.suspect();
    const list = this.#list;
    const reason = error instanceof Error ? error.message : String(error);
    const wasAnswered = error instanceof ApiError || error instanceof StreamError;
    if (list !== undefined && wasAnswered) {
      this.#listFailed(list.method, reason);
      if (list.method === 'streaming') return pause(retryAfterMs(error), signal);
    }
    const firstMaxMs = this.#parts.timing.backoffFirstMaxMs;
    const delayMs = this.#backoff.failed(this.#status.synced ? undefined : firstMaxMs);
    if (isAbsence(error) && this.#target.presence === 'optional') {
      this.#status.continueWithout(reason);
      await pause(this.#absentBackoff.failed(), signal);
      return;
    }
    this.#status.report(reason);
    if (error instanceof ApiError && this.#refuses(error)) this.#resourceVersion = undefined;
    await pause(delayMs + retryAfterMs(error), signal);
  }

  /** After a failed stream, pages are tried immediately. If these fail too, it waits. */
  #listFailed(method: ListMethod, reason: string): void {
    this.#listed(method, 'failed', reason);
    this.#methods.failed(method, reason);
  }

  /** Whether a watch from this resourceVersion can never succeed. */
  #refuses({ status }: ApiError): boolean {
    if (status === 410) return true;
    if ([401, 403, 429].includes(status)) return false;
    this.#refusals += 1;
    return this.#refusals >= refusalsMax;
  }
}

/** Whether the answer comes from a server that works. */
function isOrderly(error: unknown): boolean {
  return error instanceof ApiError && [410, 429].includes(error.status);
}

function ignore(): void {}

/**
 * Selects the method of the next list. A streaming list costs the server least, so it comes first.
 * After each failure the other method is next, because proxies may break either one (client-go only
 * falls back from streams to pages). After a paged list, pages come first for a while.
 */
class ListMethods {
  readonly #pagesFirstMs: number;
  #next: ListMethod = 'streaming';
  #pagesUntilMs = Number.POSITIVE_INFINITY;
  /** `performance.now` of the last complete list. */
  listedAtMs = Number.NEGATIVE_INFINITY;
  /** Why a stream has just failed. */
  fallbackReason: string | undefined;
  /** A first list from the server's cache has failed. */
  hasCacheFailed = false;

  /** After a paged list, streams are not tried during `pagesFirstMs`. */
  constructor(pagesFirstMs: number) {
    this.#pagesFirstMs = pagesFirstMs;
  }

  choose(nowMs: number): ListMethod {
    if (nowMs >= this.#pagesUntilMs) {
      this.#next = 'streaming';
      this.#pagesUntilMs = Number.POSITIVE_INFINITY;
    }
    return this.#next;
  }

  failed(method: ListMethod, reason: string): void {
    this.#next = method === 'streaming' ? 'paged' : 'streaming';
    this.fallbackReason = method === 'streaming' ? reason : undefined;
    if (method === 'paged') this.hasCacheFailed = !this.hasCacheFailed;
  }

  succeeded(method: ListMethod, nowMs: number): void {
    this.#next = method;
    if (method === 'paged') this.#pagesUntilMs = nowMs + this.#pagesFirstMs;
    this.listedAtMs = nowMs;
    this.fallbackReason = undefined;
    this.hasCacheFailed = false;
  }
}

/**
 * Opens the next watch while the current one still runs: at a busy API server a watch may take
 * minutes to begin, and changes would be missed in that time. If it fails, there is none: then the
 * next one is opened when the current one has ended.
 */
class NextWatch<Watch> {
  readonly #timer: NodeJS.Timeout | undefined;
  #pending: Promise<Watch> | undefined;

  /** Calls `open` after `delayMs` (undefined = never), and `onReady` when it has succeeded. */
  constructor(delayMs: number | undefined, open: () => Promise<Watch>, onReady: () => void) {
    if (delayMs === undefined) return;
    this.#timer = setTimeout(() => {
      this.#pending = open();
      this.#pending.then(onReady, () => {
        this.#pending = undefined;
      });
    }, delayMs);
  }

  /** Takes the next watch, which may not have begun yet; undefined if there is none. */
  take(): Promise<Watch> | undefined {
    clearTimeout(this.#timer);
    return this.#pending;
  }
}
