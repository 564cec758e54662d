import type { ReflectorTiming } from './timing.ts';

/** What comes in the last moment of a watch came because it ended. */
const lastMomentMs = 250;

/** How long the next watch is to be. */
interface WatchLength {
  /** After which the server is asked to end it. */
  readonly seconds: number;
  /** When the one after it is asked for; undefined = not before it has ended. */
  readonly reliefAfterMs: number | undefined;
}

/**
 * How news comes through watches, and what the next one is to be like:
 *
 * - `live`: as it happens.
 * - `quiet`: not at all. So it is in a quiet cluster where the server sends no bookmarks (its etcd
 *   is older than 3.4.25 or 3.5.8), and also where a proxy buffers, or the server has nothing to
 *   say about a time to come. A short watch tells one from the other: that it ends as asked is a
 *   sign of life, and a proxy that buffers lets go then.
 * - `buffered`: when the watch ends.
 */
export class WatchFlow {
  readonly #timing: ReflectorTiming;
  /** Until something comes in time, nothing is relied on. */
  #state: 'untried' | 'live' | 'quiet' | 'buffered' = 'untried';
  #askedAtMs = 0;
  #firstWordMs: number | undefined;

  constructor(timing: ReflectorTiming) {
    this.#timing = timing;
  }

  /** The last watch said nothing in all its time. */
  get isMute(): boolean {
    return this.#state === 'quiet';
  }

  /** Of a watch that brings a list, or of one that goes on from what is known. */
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

  /** It can be relied on: a list came through it, and it goes on. */
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

  /** The watch was silent for too long. Whether that is no trouble yet. */
  fellSilent(): boolean {
    const expected = this.#state === 'live';
    this.#state = 'quiet';
    return expected;
  }
}

function between(min: number, max: number): number {
  return Math.max(1, Math.round(min + Math.random() * (max - min)));
}
