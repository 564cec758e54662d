import type { ReflectorTiming } from './timing.ts';

/** What comes so shortly before the end of a watch came because it ended. */
const lastMomentMs = 250;

/** The length of the next watch. */
interface WatchLength {
  /** The time after which the server should end it. */
  readonly seconds: number;
  /** When to ask for the watch after it; undefined = when it has ended. */
  readonly reliefAfterMs: number | undefined;
}

/**
 * When events come through watches, and how long the next watch should be:
 *
 * - `live`: events come as they happen.
 * - `quiet`: nothing comes. That is normal in a quiet cluster whose server sends no bookmarks (its
 *   etcd is older than 3.4.25 or 3.5.8). It also happens when a proxy buffers, or when the watch is
 *   for a future version. A short watch shows which it is: if it ends on time, the server lives,
 *   and a proxy that buffers then sends what it has.
 * - `buffered`: events come when the watch ends.
 */
export class WatchFlow {
  readonly #timing: ReflectorTiming;
  /** Until an event comes in time, watches are short. */
  #state: 'untried' | 'live' | 'quiet' | 'buffered' = 'untried';
  #askedAtMs = 0;
  #firstWordMs: number | undefined;

  constructor(timing: ReflectorTiming) {
    this.#timing = timing;
  }

  /** The last watch brought nothing. */
  get isMute(): boolean {
    return this.#state === 'quiet';
  }

  /** The length of a watch that brings a list, or of one that goes on from a position. */
  length(what: 'list' | 'news'): WatchLength {
    const { watchSecondsMin: min, watchSecondsMax: max, overlapMs } = this.#timing;
    if (what === 'list' || this.#state === 'live') {
      const seconds = between(min, max);
      return { seconds, reliefAfterMs: Math.max(seconds * 500, seconds * 1000 - overlapMs) };
    }
    const { quietWatchSeconds, bufferedWatchSeconds } = this.#timing;
    const longest = this.#state === 'buffered' ? bufferedWatchSeconds : quietWatchSeconds;
    return { seconds: between(longest * 0.75, longest), reliefAfterMs: undefined };
  }

  /** A watch that was asked for at `askedAtMs` is read from now on. */
  began(askedAtMs: number): void {
    this.#askedAtMs = askedAtMs;
    this.#firstWordMs = undefined;
  }

  /** The running watch has brought something. */
  heard(): void {
    const nowMs = performance.now();
    this.#firstWordMs ??= nowMs;
    if (nowMs - this.#firstWordMs > lastMomentMs) this.#state = 'live';
  }

  /** Events come in time: a list came through the watch, and it goes on. */
  proven(): void {
    this.#state = 'live';
  }

  /** The watch ended as it should. */
  ended(): void {
    const nowMs = performance.now();
    const { bufferedWatchSeconds: short } = this.#timing;
    if (this.#firstWordMs === undefined) this.#state = 'quiet';
    else if (nowMs - this.#firstWordMs > lastMomentMs) this.#state = 'live';
    else if (nowMs - this.#askedAtMs > short * 500) this.#state = 'buffered';
  }

  /** The watch was silent for too long. Returns true when that is no trouble yet. */
  fellSilent(): boolean {
    const expected = this.#state === 'live';
    this.#state = 'quiet';
    return expected;
  }
}

function between(min: number, max: number): number {
  return Math.max(1, Math.round(min + Math.random() * (max - min)));
}
