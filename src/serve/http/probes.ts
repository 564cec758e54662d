/** Answers of probes, made on the HTTP thread from the shared memory. */
import { isHealthy, type Moment, type ProbePath, probeAnswer } from '../health-answer.ts';
import type { TextReply } from '../reply.ts';
import { machineMs, type SharedMemory } from './shared-memory.ts';

/** What the server needs to know to answer probes. */
export interface Probes {
  answer(path: ProbePath): TextReply;
  readonly healthy: boolean;
  /** It is known whether this Node exists. */
  readonly nodeListed: boolean;
  /** Calls when the facts are as new as they can be had without a wait for a busy event loop. */
  refresh(call: () => void): void;
  /** The event loop was asked for a sign of life: `tick` must be called every second. */
  readonly isWaiting: boolean;
  tick(): void;
}

/** Facts of this age are new enough. It also bounds how often the event loop is asked. */
const freshMs = 1000;
/** How long an answer waits for the event loop. */
const waitMs = 50;
/** So much of the time between two ticks counts at most. */
const tickMsMax = 2000;

interface MemoryProbesOptions {
  /** Asks the event loop to publish its facts. Then `turned` is called. */
  readonly ask: () => void;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}

/** Asks the event loop for a sign of life when a probe comes, and only then. */
export class MemoryProbes implements Probes {
  readonly #memory: SharedMemory;
  readonly #ask: () => void;
  readonly #now: () => number;
  /** When the event loop last gave a sign of life. */
  #turnedAtMs: number;
  /** When it was asked for one that has not come. */
  #askedAtMs: number | undefined;
  #tickAtMs = 0;
  #loopSilentMs = 0;
  #waiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(memory: SharedMemory, { ask, now = machineMs }: MemoryProbesOptions) {
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

  get nodeListed(): boolean {
    return this.#memory.published().facts.nodeListed;
  }

  get isWaiting(): boolean {
    return this.#askedAtMs !== undefined;
  }

  refresh(call: () => void): void {
    const nowMs = this.#now();
    const isLate = this.#askedAtMs !== undefined && nowMs - this.#askedAtMs >= waitMs;
    if (isLate || (!this.isWaiting && nowMs - this.#turnedAtMs < freshMs)) {
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

  /** The event loop has given the sign of life that it was asked for. */
  turned(): void {
    this.#askedAtMs = undefined;
    this.#loopSilentMs = 0;
    this.#turnedAtMs = this.#now();
    this.#release();
  }

  /**
   * Counts for how long the event loop has not answered. Only time counts in which this thread
   * could run: when the whole process was stopped, or the machine slept, nothing is wrong with the
   * loop.
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
