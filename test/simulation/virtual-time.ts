/**
 * Time that passes only where nothing else can happen. `install` puts it in place of the clock,
 * timers and random numbers of this process, also of modules that were loaded before, so that a run
 * depends on its seed alone. What Node's own code waits for (streams, promises) is left to run out
 * between two events; files are waited for.
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import type { Random } from '../chaos/random.ts';

interface Event {
  readonly atMs: number;
  readonly number: number;
  readonly call: () => void;
  isCancelled: boolean;
}

/** The wall clock when a run begins: 2027-01-01T00:00:00Z. */
const epochMs = 1_798_761_600_000;

/** Reading the clock takes this long, milliseconds; rarely, the processor was taken away. */
const readMs = 0.001;
const takenAwayMs = 5;
const takenAwayOdds = 2000;

/** Resources that end by themselves, in any real time. */
const ending = /^(FSReq|CloseReq|ZLIB|Zlib|Worker)/;

const noMemory = { rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 };

const reallySoon = globalThis.setImmediate;
const RealDate = globalThis.Date;

export class VirtualTime {
  /** A heap: the earliest first. */
  readonly #events: Event[] = [];
  readonly #random: Random;
  #nowMs = 0;
  #wallOffMs = 0;
  #count = 0;
  #isStopped = false;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Milliseconds since the run began. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many events have happened. */
  happened = 0;

  /** As `now`, for the program: reading takes time. */
  readonly read = (): number => {
    if (this.#isStopped) return this.#nowMs;
    const isTaken = this.#random.below(takenAwayOdds) === 0;
    this.#nowMs += isTaken ? takenAwayMs : readMs;
    return this.#nowMs;
  };

  wallMs(): number {
    return Math.floor(epochMs + this.#nowMs + this.#wallOffMs);
  }

  /** The wall clock is this far from true time from now on. */
  setWall(offMs: number): void {
    this.#wallOffMs = offMs;
  }

  /** Calls after `ms`. The result cancels it. */
  after(ms: number, call: () => void): () => void {
    const event = this.#add(ms, call);
    return () => {
      event.isCancelled = true;
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#add(ms, resolve));
  }

  /** Lets everything happen that happens within `ms`. */
  async pass(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      await settled();
      const [next] = this.#events;
      if (next === undefined || next.atMs > endMs) break;
      this.#take();
      if (next.isCancelled) continue;
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      this.happened += 1;
      next.call();
    }
    this.#nowMs = Math.max(this.#nowMs, endMs);
  }

  /** Lets everything happen that what is called from now on causes, and that takes no time. */
  async stop(call: () => void): Promise<void> {
    const others = this.#events.splice(0);
    this.#isStopped = true;
    call();
    await this.pass(0);
    this.#isStopped = false;
    for (const event of others) this.#push(event);
  }

  /** Nothing happens for that long; what was due then happens late. */
  standStill(ms: number): void {
    this.#nowMs += ms;
  }

  install(): void {
    const time = this;
    const random = this.#random;
    globalThis.setTimeout = ((call: (...given: unknown[]) => void, ms = 0, ...given: unknown[]) =>
      new Timer(time, Math.max(1, ms), () => call(...given))) as unknown as typeof setTimeout;
    globalThis.setInterval = ((call: (...given: unknown[]) => void, ms = 0, ...given: unknown[]) =>
      new Timer(
        time,
        Math.max(1, ms),
        () => call(...given),
        'again',
      )) as unknown as typeof setInterval;
    globalThis.setImmediate = ((call: (...given: unknown[]) => void, ...given: unknown[]) =>
      new Timer(time, 0, () => call(...given))) as unknown as typeof setImmediate;
    const clear = (timer: Timer | undefined): void => timer?.close();
    globalThis.clearTimeout = clear as unknown as typeof clearTimeout;
    globalThis.clearInterval = clear as unknown as typeof clearInterval;
    globalThis.clearImmediate = clear as unknown as typeof clearImmediate;
    performance.now = time.read;
    globalThis.Date = class extends RealDate {
      constructor(...given: unknown[]) {
        super(...((given.length === 0 ? [time.wallMs()] : given) as [number]));
      }
      static override now = (): number => time.wallMs();
    } as unknown as DateConstructor;
    Math.random = () => random.next();
    AbortSignal.timeout = (ms) => {
      const controller = new AbortController();
      const reason = new DOMException('The operation was aborted due to timeout', 'TimeoutError');
      this.#add(ms, () => controller.abort(reason));
      return controller.signal;
    };
    timers.setTimeout = ((ms, value, options) =>
      this.#abortable(ms ?? 1, value, options?.signal)) as typeof timers.setTimeout;
    timers.setImmediate = ((value, options) =>
      this.#abortable(0, value, options?.signal)) as typeof timers.setImmediate;
    const bytes = (size: number): Buffer =>
      Buffer.from(Array.from({ length: size }, () => random.below(256)));
    crypto.randomBytes = bytes as typeof crypto.randomBytes;
    process.uptime = () => this.#nowMs / 1000;
    // What the heap holds depends on the machine; the program collects garbage by it.
    process.memoryUsage = Object.assign(() => ({ ...noMemory }), { rss: () => 0 });
    syncBuiltinESMExports();
  }

  #abortable<T>(ms: number, value: T, signal: AbortSignal | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        event.isCancelled = true;
        reject(new DOMException('The operation was aborted', 'AbortError'));
      };
      const event = this.#add(ms, () => {
        signal?.removeEventListener('abort', abort);
        resolve(value);
      });
      if (signal?.aborted) abort();
      signal?.addEventListener('abort', abort, { once: true });
    });
  }

  #add(ms: number, call: () => void): Event {
    const wait = Number.isFinite(ms) ? Math.max(0, ms) : 0;
    const event = { atMs: this.#nowMs + wait, number: this.#count, call, isCancelled: false };
    this.#count += 1;
    this.#push(event);
    return event;
  }

  #push(event: Event): void {
    const events = this.#events;
    let at = events.length;
    events.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, events[parent]!)) break;
      events[at] = events[parent]!;
      at = parent;
    }
    events[at] = event;
  }

  #take(): void {
    const events = this.#events;
    const last = events.pop()!;
    if (events.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child += 1;
      if (!isBefore(events[child]!, last)) break;
      events[at] = events[child]!;
      at = child;
    }
    events[at] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.number < b.number);
}

/** What `setTimeout` and the like return. */
class Timer {
  readonly #time: VirtualTime;
  readonly #ms: number;
  readonly #call: () => void;
  readonly #again: boolean;
  #cancel: () => void = () => {};

  constructor(time: VirtualTime, ms: number, call: () => void, again = '') {
    this.#time = time;
    this.#ms = ms;
    this.#call = call;
    this.#again = again !== '';
    this.refresh();
  }

  refresh(): this {
    this.#cancel();
    this.#cancel = this.#time.after(this.#ms, () => {
      if (this.#again) this.refresh();
      this.#call();
    });
    return this;
  }

  close(): void {
    this.#cancel();
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }
}

/** All that waits for neither time nor the network has happened. */
async function settled(): Promise<void> {
  do await new Promise((resolve) => reallySoon(resolve));
  while (process.getActiveResourcesInfo().some((one) => ending.test(one)));
}
