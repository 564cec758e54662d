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
  /** Is called every second. */
  tick(): void;
}

/** So much of the time between two ticks counts at most. */
const tickMsMax = 2000;

export class MemoryProbes implements Probes {
  readonly #memory: SharedMemory;
  readonly #now: () => number;
  #beats: number;
  #tickAtMs: number;
  #loopSilentMs = 0;

  constructor(memory: SharedMemory, now = machineMs) {
    this.#memory = memory;
    this.#now = now;
    this.#beats = memory.beats;
    this.#tickAtMs = now();
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

  /**
   * Counts for how long the event loop has not turned. Only time counts in which this thread could
   * run: when the whole process was stopped, or the machine slept, nothing is wrong with the loop.
   */
  tick(): void {
    const nowMs = this.#now();
    const passedMs = Math.min(tickMsMax, nowMs - this.#tickAtMs);
    this.#tickAtMs = nowMs;
    const { beats } = this.#memory;
    this.#loopSilentMs = beats === this.#beats ? this.#loopSilentMs + passedMs : 0;
    this.#beats = beats;
  }

  #moment(): Moment {
    return {
      wallMs: Date.now(),
      elapsedMs: Math.max(0, this.#now() - this.#memory.published().atMs),
      loopSilentMs: this.#loopSilentMs,
    };
  }
}
