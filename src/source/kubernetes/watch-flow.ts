import type { ReflectorTiming } from './timing.ts';

/** An event this shortly before the end of a watch was delivered because the watch ended. */
const lastMomentMs = 250;

/** The length of the next watch. */
interface WatchLength {
  /** The time after which the server should end it. */
  readonly seconds: number;
  /** When to open the watch after it; undefined = when it has ended. */
  readonly reliefAfterMs: number | undefined;
}

/**
 * How events arrive through watches, and how long the next watch should be:
 *
 * - `live`: events arrive as they happen.
 * - `quiet`: nothing arrives. That is normal in a quiet cluster whose server sends no bookmarks
 *   (its etcd is older than 3.4.25 or 3.5.8). It also happens if a proxy buffers, or if the watch
 *   is for a future version. A short watch shows which it is: if it ends on time, the server is
 *   alive, and a buffering proxy then sends what it has.
 * - `buffered`: events arrive when the watch ends.
 */
export class WatchFlow {
  readonly #timing: ReflectorTiming;
  /** Until an event arrives in time, watches are short. */
  #state: 'untried' | 'live' | 'quiet' | 'buffered' = 'untried';
  #askedAtMs = 0;
  #firstWordMs: number | undefined;

  constructor(timing: ReflectorTiming) {
    this.#timing = timing;
  }

  /** The last watch delivered nothing. */
  get isMute(): boolean {
    return this.#state === 'quiet';
  }

  /** The length of a watch that delivers a list, or of one that continues from a position. */
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

  /** A watch that was opened at `askedAtMs` is read from now on. */
  began(askedAtMs: number): void {
    this.#askedAtMs = askedAtMs;
    this.#firstWordMs = undefined;
  }

  /** The running watch has delivered something. */
  heard(): void {
    const nowMs = performance.now();
    this.#firstWordMs ??= nowMs;
    if (nowMs - this.#firstWordMs > lastMomentMs) this.#state = 'live';
  }

  /** Events arrive in time: a list was delivered through the watch, and it continues. */
  proven(): void {
    this.#state = 'live';
  }

  /** The next watch may be for a future version. Only one is short, in case that lasts. */
  doubted(): void {
    if (this.#state === 'live') this.#state = 'buffered';
  }

  /** The watch ended normally. */
  ended(): void {
    const nowMs = performance.now();
    const { bufferedWatchSeconds: short } = this.#timing;
    if (this.#firstWordMs === undefined) this.#state = 'quiet';
    else if (nowMs - this.#firstWordMs > lastMomentMs) this.#state = 'live';
    else if (nowMs - this.#askedAtMs > short * 500) this.#state = 'buffered';
  }

  /** The watch was silent for too long. Returns true if that is not a problem yet. */
  fellSilent(): boolean {
    const expected = this.#state === 'live';
    this.#state = 'quiet';
    return expected;
  }
}

function between(min: number, max: number): number {
  return Math.max(1, Math.round(min + Math.random() * (max - min)));
}
