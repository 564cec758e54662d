import { pause } from '../../time/clock.ts';
import type { Pacer } from '../../time/pacer.ts';
import { ApiStream } from './api-stream.ts';
import type { ApiClient, Query } from './client.ts';
import { type ObjectDelivery, resourceVersionOf } from './delivery.ts';
import type { Encodings } from './encoding.ts';
import { readListSince } from './paged-list.ts';
import { isNewer } from './rollback-probe.ts';
import type { ReflectorTiming } from './timing.ts';

/** What to list. */
interface Listed {
  /** `/api/v1/services` */
  readonly path: string;
  /** Selectors. */
  readonly query: Query;
}

export interface ComparisonParts {
  readonly client: ApiClient;
  readonly delivery: ObjectDelivery;
  readonly encodings: Encodings;
  /** Shared by all reflectors of a process. */
  readonly pacer: Pacer;
  readonly timing: ReflectorTiming;
}

/**
 * Compares the objects of one resource with the API server, now and then, while its watch runs. It
 * corrects what no event reports: after etcd was restored from a backup, resourceVersions occur a
 * second time, and the server may be past our position before we ask it again. Whole objects are
 * compared: even uid and generation can be those of the lost object.
 *
 * The list comes from the server's cache, in one answer, and must not be older than our position.
 */
export class Comparison {
  readonly #target: Listed;
  readonly #parts: ComparisonParts;
  /** Of a running comparison: keys in its list, and of what the watch has changed since. */
  #keys: Set<string> | undefined;
  /** The time that the last complete list took. */
  #tookMs = 0;
  #stopping = new AbortController();
  #sooner = new AbortController();

  constructor(target: Listed, parts: ComparisonParts) {
    this.#target = target;
    this.#parts = parts;
  }

  /**
   * Compares until `signal` aborts. `position`: the resourceVersion up to which everything was
   * delivered; undefined = a list is being made anyway. `onDifference` is called with the number of
   * objects that were corrected.
   */
  async run(
    position: () => string | undefined,
    onDifference: (objects: number) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { compareMinMs, compareMaxMs, compareShareMax } = this.#parts.timing;
    while (!signal.aborted) {
      const usualMs = compareMinMs + Math.random() * (compareMaxMs - compareMinMs);
      this.#sooner = new AbortController();
      const next = AbortSignal.any([signal, this.#sooner.signal]);
      await pause(Math.max(usualMs, this.#tookMs / compareShareMax), next);
      const since = position();
      if (since === undefined || signal.aborted) continue;
      const differences = await this.#compare(since, signal);
      // What was left out is expected to differ.
      if (differences > 0 && !this.#sooner.signal.aborted) onDifference(differences);
    }
  }

  /** Compares now, unless it does so anyway. */
  now(): void {
    this.#sooner.abort();
  }

  /** Must be called before the watch delivers a change of this object. */
  changes(key: string): void {
    this.#keys?.add(key);
  }

  /** Must be called before a list is made, which knows more than a running comparison. */
  stop(): void {
    this.#stopping.abort();
  }

  async #compare(since: string, outer: AbortSignal): Promise<number> {
    const { delivery, encodings, pacer, timing } = this.#parts;
    const keys = new Set<string>();
    this.#keys = keys;
    this.#stopping = new AbortController();
    const signal = AbortSignal.any([outer, this.#stopping.signal]);
    let differences = 0;
    let isReadable = true;
    const correct = (deliver: () => unknown): void => {
      const before = delivery.changes;
      deliver();
      differences += delivery.changes - before;
    };
    const reader = {
      open: (query: Query) => this.#open(query, signal),
      *item(raw: unknown): Generator<undefined, void> {
        const deliver = yield* delivery.decode(raw);
        signal.throwIfAborted();
        const key = delivery.keyOf(raw);
        if (key === undefined) {
          isReadable = false;
          return;
        }
        // The watch has delivered a change of it in the meantime, or is going to.
        const isOfWatch = keys.has(key) || isNewer(resourceVersionOf(raw), since);
        if (!isOfWatch) correct(deliver);
        if (delivery.has(key)) keys.add(key);
      },
      unreadable: (): void => {
        isReadable = false;
      },
    };
    const { objectBytesMax, pagedListMaxMs: maxMs } = timing;
    const options = { encodings, objectBytesMax, maxMs, pacer };
    const startedMs = performance.now();
    try {
      const version = await readListSince(since, reader, options);
      this.#tookMs = performance.now() - startedMs;
      signal.throwIfAborted();
      const isComplete = isReadable && (version === since || isNewer(version, since));
      if (isComplete) correct(() => delivery.retain(keys));
    } catch {
      // The watch reports problems of the server.
    }
    this.#keys = undefined;
    return differences;
  }

  #open(query: Query, signal: AbortSignal): Promise<ApiStream> {
    const { client, timing } = this.#parts;
    const { path, query: selectors } = this.#target;
    const options = {
      startMaxMs: timing.listMaxMs,
      silenceMaxMs: timing.idleTimeoutMs,
      signal,
      onWord: () => {},
    };
    return ApiStream.open(client, path, { ...selectors, ...query }, options);
  }
}
