/**
 * What one Service port knows of the answers of one of its endpoints: from packets that the kernel
 * has counted, and from probes that this port has asked for. Ports share nothing but what the
 * kernel counts, so that no Service can have the endpoints of another one left out, or kept. Pure.
 */
import type { Counts } from './table.ts';

/** How long an endpoint may take to answer. */
export const patienceMs = 1000;

/** The counts at one time. */
interface Sample {
  readonly atMs: number;
  readonly attempts: number;
  /** Of `attempts`, those of our own. */
  readonly probes: number;
}

export const noCounts: Counts = { attempts: 0, answers: 0, resets: 0 };

export class Evidence {
  /** What was sent to it, with our own probes; what was answered and refused. */
  #counts: Counts;
  /** Our own probes, when that was read. */
  #probes: number;
  /** Those of this port that have failed since the last answer. */
  #failedProbes = 0;
  /** A probe has succeeded once: that probes fail means something. */
  #isProven = false;
  /** Attempts since the last answer; the first sample is that of the answer. */
  #samples: Sample[];
  #answeredMs = Number.NEGATIVE_INFINITY;
  /** When the last reading began: what was answered before that is known. */
  #lookedMs = Number.NEGATIVE_INFINITY;

  /** What the kernel has counted before, and how many probes had begun, says nothing here. */
  constructor(counts: Counts = noCounts, probes = 0) {
    this.#counts = counts;
    this.#probes = probes;
    this.#samples = [{ atMs: Number.NEGATIVE_INFINITY, attempts: counts.attempts, probes }];
  }

  get counts(): Counts {
    return this.#counts;
  }

  /** When it was last seen to answer, by the clock. */
  get answeredMs(): number {
    return this.#answeredMs;
  }

  /** When its first attempt that is not answered was seen; undefined: there is none. */
  get silentSinceMs(): number | undefined {
    return this.#samples[1]?.atMs;
  }

  /** How many samples are kept. */
  get sampleCount(): number {
    return this.#samples.length;
  }

  /**
   * The kernel counts from zero again, after this number of probes. What was known before is void,
   * but for probes.
   */
  restart(probes: number): void {
    this.#counts = noCounts;
    this.#probes = probes;
    this.forgive(Number.NEGATIVE_INFINITY);
  }

  /**
   * What the kernel had counted, read between two times, and how many probes were among that or
   * are on their way, whoever asked for them.
   */
  note(counts: Counts, probes: number, beganMs: number, endedMs: number): void {
    const hasAnswered = counts.answers > this.#counts.answers;
    this.#counts = counts;
    this.#probes = probes;
    this.#lookedMs = beganMs;
    if (hasAnswered) {
      this.#answered(endedMs);
      return;
    }
    const { attempts } = counts;
    if (attempts === this.#samples.at(-1)!.attempts) return;
    this.#samples.push({ atMs: endedMs, attempts, probes: this.#probes });
    // One that is old enough stands for all before it, but for the answer and the first attempt.
    while (this.#samples.length > 3 && this.#samples[3]!.atMs <= beganMs - patienceMs) {
      this.#samples.splice(2, 1);
    }
  }

  /** A probe that this port has asked for is over. */
  probed(hasAnswered: boolean, atMs: number): void {
    if (hasAnswered) {
      this.#isProven = true;
      this.#answered(atMs);
    } else this.#failedProbes += 1;
  }

  /**
   * How many attempts have waited for an answer for longer than an endpoint may take, since it was
   * last seen to answer. Failed probes count only where another has succeeded: a policy may refuse
   * those of nodes.
   */
  unanswered(): number {
    const answer = this.#samples[0]!;
    const dueMs = this.#lookedMs - patienceMs;
    const due = this.#samples.findLast(({ atMs }) => atMs <= dueMs) ?? answer;
    const ofClients = due.attempts - answer.attempts - (due.probes - answer.probes);
    return Math.max(0, ofClients) + (this.#isProven ? this.#failedProbes : 0);
  }

  /** No attempt up to now is held against it. */
  forgive(atMs: number): void {
    this.#failedProbes = 0;
    const { attempts } = this.#counts;
    this.#samples = [{ atMs, attempts, probes: this.#probes }];
  }

  #answered(atMs: number): void {
    this.#answeredMs = atMs;
    this.forgive(atMs);
  }
}
