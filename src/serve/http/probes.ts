/** Answers of probes, made on the HTTP thread from the shared memory. */
import { isHealthy, type Moment, type ProbePath, probeAnswer } from '../health-answer.ts';
import type { TextReply } from '../reply.ts';
import { machineMs, type SharedMemory } from './shared-memory.ts';

/** Facts of this age are recent, unless they have changed. */
const freshMs = 1000;
/** How long an answer waits for the event loop. */
const waitMs = 50;
/** The most time between two ticks that counts. */
const tickMsMax = 2000;

interface ProbesOptions {
  /** Asks the event loop to publish its facts. Then `turned` is called. */
  readonly ask: () => void;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}

/** Pings the event loop only when a probe arrives. */
export class Probes {
  readonly #memory: SharedMemory;
  readonly #ask: () => void;
  readonly #now: () => number;
  /** The time of the event loop's last answer to a ping. */
  #turnedAtMs: number;
  /** The time of the ping that has no answer. */
  #askedAtMs: number | undefined;
  #tickAtMs = 0;
  #loopSilentMs = 0;
  #waiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(memory: SharedMemory, { ask, now = machineMs }: ProbesOptions) {
    this.#memory = memory;
    this.#ask = ask;
    this.#now = now;
    // The facts were published just before this thread was started.
    this.#turnedAtMs = now();
  }

  answer(path: ProbePath): TextReply {
    return probeAnswer(path, this.#memory.published().facts, this.#moment());
  }

  get healthy(): boolean {
    return isHealthy(this.#memory.published().facts, this.#moment());
  }

  /** Whether it is known if this Node exists. */
  get nodeListed(): boolean {
    return this.#memory.published().facts.nodeListed;
  }

  /** The event loop was pinged: `tick` must be called every second. */
  get isWaiting(): boolean {
    return this.#askedAtMs !== undefined;
  }

  /** Calls `call` when the facts are recent, or when the event loop has not answered in time. */
  refresh(call: () => void): void {
    const nowMs = this.#now();
    const isLate = this.#askedAtMs !== undefined && nowMs - this.#askedAtMs >= waitMs;
    const isFresh = !this.#memory.isOutdated && nowMs - this.#turnedAtMs < freshMs;
    if (isLate || (!this.isWaiting && isFresh)) {
      call();
      return;
    }
    this.#waiting.push(call);
    if (this.#askedAtMs !== undefined) return;
    this.#askedAtMs = nowMs;
    this.#tickAtMs = nowMs;
    this.#timer = setTimeout(() => this.#release(), waitMs);
    this.#ask();
  }

  /** The event loop has answered the ping. */
  turned(): void {
    this.#askedAtMs = undefined;
    this.#loopSilentMs = 0;
    this.#turnedAtMs = this.#now();
    this.#release();
  }

  /**
   * Measures how long the event loop has been blocked. Only time in which this thread could run
   * counts: if the whole process was stopped or the machine slept, the loop is not at fault.
   */
  tick(): void {
    if (!this.isWaiting) return;
    const nowMs = this.#now();
    this.#loopSilentMs += Math.min(tickMsMax, nowMs - this.#tickAtMs);
    this.#tickAtMs = nowMs;
  }

  #release(): void {
    clearTimeout(this.#timer);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const call of waiting) call();
  }

  #moment(): Moment {
    return {
      wallMs: Date.now(),
      elapsedMs: Math.max(0, this.#now() - this.#memory.published().atMs),
      loopSilentMs: this.#loopSilentMs,
    };
  }
}
