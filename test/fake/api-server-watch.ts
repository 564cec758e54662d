import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Watched } from '../../src/source/source.ts';
import type { AnswerForm } from './api-server-form.ts';
import { bookmarkRest, watchExpired } from './api-server-recorded.ts';
import {
  type FakeStore,
  type Selector,
  type StoredEvent,
  type StoredObject,
  withVersion,
} from './api-server-store.ts';

/** What may happen to a running watch. */
export const disturbances = [
  /** The connection is closed. */
  'drop',
  /** The server ends the watch, as when its time is over. */
  'end',
  /** Nothing more is sent; the connection stays. */
  'stall',
  /** The next event ends inside a UTF-8 character, or in the middle; the connection is closed. */
  'cut',
  /** The beginning of an event is sent, and the connection is closed immediately. */
  'cut-now',
  /** An ERROR event with code 410, and the end. */
  'expired',
  /** An ERROR event with code 500, and the end. */
  'failed',
  /** A line that is not JSON. */
  'garbage',
  /** The newest events again. */
  'duplicate',
  /** All events of the history except the newest again, from the oldest one on. */
  'old',
  'bookmark',
] as const;
export type Disturbance = (typeof disturbances)[number];

export interface FakeWatchOptions {
  readonly form: AnswerForm;
  readonly resource: Watched;
  readonly kind: string;
  readonly apiVersion: string;
  readonly selects: Selector;
  readonly store: FakeStore;
  /** Undefined = none. */
  readonly bookmarkMs: number | undefined;
  readonly timeoutMs: number;
  /** Only events after this resourceVersion are sent; 0 = all. */
  readonly after: number;
}

const internalError =
  '{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcd event received with PrevKv=nil","code":500}}\n';

/** The number of objects of a list, or of past events, after which others get their turn. */
const objectsAtOnce = 200;
const eventsAtOnce = 2000;

/** How many events wait in a real server until a watch has sent older ones (cacher, chanSize). */
const laterMax = 1000;

/** One running watch. */
export class FakeWatch {
  readonly #response: ServerResponse;
  readonly #options: FakeWatchOptions;
  readonly #timers: NodeJS.Timeout[] = [];
  /** Events to send after all objects; undefined = all objects are sent. */
  #later: StoredEvent[] | undefined;
  #isEnding = false;
  #state: 'sending' | 'stalled' | 'cutting' = 'sending';

  constructor(response: ServerResponse, options: FakeWatchOptions) {
    this.#response = response;
    this.#options = options;
    response.writeHead(200, { 'content-type': options.form.watchType });
    response.flushHeaders();
    this.#timers.push(setTimeout(() => this.disturb('end'), options.timeoutMs));
    if (options.bookmarkMs !== undefined) {
      this.#timers.push(setInterval(() => this.bookmark(), options.bookmarkMs));
    }
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /**
   * Ends the watch when its client does not keep up, as a real server does (cacher, "Forcing watcher
   * close due to unresponsiveness"): what has come until now is still sent. Returns whether it did.
   * `unsentBytesMax`: of what was written; of what comes behind older events, `laterMax` are kept.
   */
  endIfSlow(unsentBytesMax: number): boolean {
    const later = this.#later?.length ?? 0;
    const isSlow = later > laterMax || this.#response.writableLength > unsentBytesMax;
    if (!isSlow || this.#isEnding) return false;
    this.#isEnding = true;
    if (this.#later === undefined) this.disturb('end');
    return true;
  }

  /** Resolves when the system has taken what was sent, and when the watch is over. */
  drained(): Promise<void> {
    const response = this.#response;
    if (!response.writableNeedDrain || response.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        response.off('drain', done).off('close', done);
        resolve();
      };
      response.on('drain', done).on('close', done);
    });
  }

  /** Sends objects. Events of `send` come after them. */
  async sendAll(objects: readonly StoredObject[], end?: 'initial-events-end'): Promise<void> {
    const { selects, store } = this.#options;
    const { version } = store;
    await this.#first(objects, objectsAtOnce, (object) => {
      if (selects(object)) this.#write('ADDED', object.json, object);
    });
    if (end !== undefined) this.bookmark(end, version);
    this.#goOn();
  }

  /** Sends events of the past. Others of `send` come after them. */
  async catchUp(events: readonly StoredEvent[]): Promise<void> {
    await this.#first(events, eventsAtOnce, (event) => this.#send(event));
    this.#goOn();
  }

  /** Sends a limited amount per turn of the event loop, and no faster than the client reads. */
  async #first<T>(all: readonly T[], atOnce: number, send: (one: T) => void): Promise<void> {
    this.#later = [];
    for (const [i, one] of all.entries()) {
      if (i > 0 && i % atOnce === 0) {
        await this.drained();
        await nextTurn();
      }
      send(one);
    }
  }

  #goOn(): void {
    const later = this.#later ?? [];
    this.#later = undefined;
    for (const event of later) this.#send(event);
    if (this.#isEnding) this.disturb('end');
  }

  /**
   * Sends an event. For this client, an object that enters or leaves the selection was added or
   * deleted. A deleted object is sent with the resourceVersion of its deletion, and else as it was
   * (cacher, convertToWatchEvent).
   */
  send(event: StoredEvent): void {
    if (this.#isEnding) return;
    if (this.#later === undefined) this.#send(event);
    else this.#later.push(event);
  }

  #send(event: StoredEvent): void {
    const { version, before, after } = event;
    const { selects } = this.#options;
    if (version <= this.#options.after) return;
    const was = before !== undefined && selects(before);
    if (after !== undefined && selects(after)) {
      this.#write(was ? 'MODIFIED' : 'ADDED', after.json, after);
    } else if (was) {
      this.#write('DELETED', withVersion(before.json, version));
    }
  }

  bookmark(annotation?: 'initial-events-end', version = this.#options.store.version): void {
    const { kind, apiVersion, after, resource } = this.#options;
    if (version <= after && annotation === undefined) return;
    const metadata = {
      resourceVersion: String(version),
      ...(annotation === undefined ? {} : { annotations: { [`k8s.io/${annotation}`]: 'true' } }),
    };
    const object = JSON.stringify({ kind, apiVersion, metadata });
    this.#write('BOOKMARK', `${object.slice(0, -1)}${bookmarkRest[resource]}}`);
  }

  disturb(disturbance: Disturbance): void {
    const { form, resource, store } = this.#options;
    switch (disturbance) {
      case 'drop':
        this.#response.destroy();
        break;
      case 'end':
        this.#response.end();
        break;
      case 'stall':
        this.#state = 'stalled';
        break;
      case 'cut':
        this.#state = 'cutting';
        break;
      case 'cut-now':
        this.#response.write(form.partOfEvent, () => this.#response.destroy());
        this.#state = 'stalled';
        break;
      case 'expired':
        this.#last(watchExpired);
        break;
      case 'failed':
        this.#last(internalError);
        break;
      case 'garbage':
        this.#response.write('<html>upstream connect error</html>\n');
        break;
      case 'duplicate':
        for (const event of store.latest(resource, 5)) this.send(event);
        break;
      case 'old':
        for (const event of store.latest(resource, Infinity).slice(0, -1)) this.send(event);
        break;
      case 'bookmark':
        this.bookmark();
        break;
    }
  }

  #last(line: string): void {
    if (this.#state === 'stalled' || this.#response.destroyed) return;
    this.#response.end(this.#options.form.error(line));
  }

  #write(type: string, json: string, stored?: StoredObject): void {
    if (this.#state === 'stalled' || this.#response.writableEnded) return;
    if (this.#response.destroyed) return;
    const { form, resource } = this.#options;
    const event = form.event(type, resource, json, stored);
    if (this.#state === 'sending') {
      this.#response.write(event);
      return;
    }
    this.#state = 'stalled';
    const bytes = Buffer.from(event as Buffer);
    const inCharacter = bytes.indexOf(0xc3) + 1;
    this.#response.write(bytes.subarray(0, inCharacter > 0 ? inCharacter : bytes.length / 2), () =>
      this.#response.destroy(),
    );
  }
}
