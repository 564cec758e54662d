/**
 * What one Service port knows about the answers of one endpoint: from packets that the kernel
 * counted, and from probes that this port requested. Ports share only the kernel's counts, so no
 * Service can eject the endpoints of another one, or keep them. Pure.
 */
import type { Counts } from './counts.ts';

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
  /** The kernel's counts, as last read. Attempts include our own probes. */
  #counts: Counts;
  /** The number of our own probes among these. */
  #probes: number;
  /**
   * Of this port: those that have failed since the last answer, and whether one has succeeded
   * before, so that failed ones count.
   */
  readonly #ownProbes = { failed: 0, isProven: false };
  /** Attempts since the last answer; the first sample is that of the answer. */
  #samples: Sample[];
  #answeredMs = Number.NEGATIVE_INFINITY;
  /** When the last reading began. All answers before that are known. */
  #lookedMs = Number.NEGATIVE_INFINITY;

  /** The arguments are a baseline: earlier attempts, answers and probes do not count. */
  constructor(counts: Counts = noCounts, probes = 0) {
    this.#counts = counts;
    this.#probes = probes;
    this.#samples = [{ atMs: Number.NEGATIVE_INFINITY, attempts: counts.attempts, probes }];
  }

  get counts(): Counts {
    return this.#counts;
  }

  /** `Clock.now` when it was last seen to answer. */
  get answeredMs(): number {
    return this.#answeredMs;
  }

  /** When its first unanswered attempt was seen; undefined: all are answered. */
  get silentSinceMs(): number | undefined {
    return this.#samples[1]?.atMs;
  }

  /** How many samples are kept. */
  get sampleCount(): number {
    return this.#samples.length;
  }

  /**
   * The kernel's counts restart at zero, after this number of probes. Earlier attempts are
   * forgotten; that a probe has succeeded is not.
   */
  restart(probes: number): void {
    this.#counts = noCounts;
    this.#probes = probes;
    this.forgive(Number.NEGATIVE_INFINITY);
  }

  /**
   * Takes counts that were read between two times. `probes`: our own probes, of all ports, that
   * are among the attempts or will be.
   */
  note(counts: Counts, probes: number, beganMs: number, endedMs: number): void {
    // Another program has deleted the element, and it was made again.
    if (counts.attempts < this.#counts.attempts) this.restart(probes);
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
    // The latest sample that is old enough is sufficient, with the answer and the first attempt.
    while (this.#samples.length > 3 && this.#samples[3]!.atMs <= beganMs - patienceMs) {
      this.#samples.splice(2, 1);
    }
  }

  /** A probe that this port requested has ended. */
  probed(hasAnswered: boolean, atMs: number): void {
    if (hasAnswered) {
      this.#ownProbes.isProven = true;
      this.#answered(atMs);
    } else this.#ownProbes.failed += 1;
  }

  /**
   * The number of attempts since the last answer that have waited for longer than an endpoint may
   * take. Failed probes count only after one has succeeded: a policy may refuse probes of nodes.
   */
  unanswered(): number {
    const answer = this.#samples[0]!;
    const dueMs = this.#lookedMs - patienceMs;
    const due = this.#samples.findLast(({ atMs }) => atMs <= dueMs) ?? answer;
    const ofClients = due.attempts - answer.attempts - (due.probes - answer.probes);
    return Math.max(0, ofClients) + (this.#ownProbes.isProven ? this.#ownProbes.failed : 0);
  }

  /** Attempts up to now no longer count. */
  forgive(atMs: number): void {
    this.#ownProbes.failed = 0;
    const { attempts } = this.#counts;
    this.#samples = [{ atMs, attempts, probes: this.#probes }];
  }

  #answered(atMs: number): void {
    this.#answeredMs = atMs;
    this.forgive(atMs);
  }
}
