/** Logs how the source lists and watches, and how long that has failed. */

import type {
  Condition,
  ListAttempt,
  ListMethod,
  SourceProblem,
  Watched,
} from '../source/source.ts';
import { type Resource, resources } from '../state/change.ts';
import { pause, systemClock, Wakeup } from '../time/clock.ts';
import { staleAfterMs } from './health-answer.ts';
import type { Logger } from './log.ts';

const checkMs = 1000;
/** The longest interval of checks while the source is healthy. */
const wellCheckMs = 60_000;
/** If a check is late by this time, the process was stopped, or the machine slept. */
const lateMs = 10_000;
/** A missing or silent resource is reported after this time, then each time the time doubles. */
const firstReportMs = 10_000;
/** The longest interval between two such reports. */
const repeatMs = 300_000;
/** After this time the report is an error. */
const errorAfterMs = 60_000;

interface SourceReportOptions {
  readonly log: Logger;
  readonly source: { condition(resource: Resource): Condition; server(): string | undefined };
  /** Reports a problem of one watch, while others are well. */
  readonly problem: (problem: SourceProblem) => void;
}

/** An outage of the API server. */
interface Outage {
  /** When it was noticed, by `performance.now`. */
  readonly sinceMs: number;
  /** When to report it next, in milliseconds since then. */
  dueMs: number;
}

export class SourceReport {
  readonly #options: SourceReportOptions;
  /** The last list method of each resource. */
  readonly #methods = new Map<Watched, ListMethod>();
  /** When to report each resource next, in milliseconds since its trouble began. */
  readonly #dueMs = new Map<Watched, number>();
  /** How long watches that were reported as silent have been so. */
  readonly #silentMs = new Map<Watched, number>();
  /** Problems of watches that are not reported yet: perhaps the server is gone. */
  #held: SourceProblem[] = [];
  #outage: Outage | undefined;
  readonly #wakeup = new Wakeup(systemClock);

  constructor(options: SourceReportOptions) {
    this.#options = options;
  }

  /** Logs the list method of a resource, once and whenever it changes. */
  listed({ resource, method, result, reason }: ListAttempt): void {
    if (result === 'failed' || this.#methods.get(resource) === method) return;
    this.#methods.set(resource, method);
    const { log } = this.#options;
    if (reason === undefined) log.info({ resource, method }, 'Using list method');
    else log.warn({ resource, method, err: reason }, 'Falling back to list method');
  }

  /** A watch has failed. Others may follow within a moment: that is one report then. */
  problem(problem: SourceProblem): void {
    this.#held.push(problem);
    this.#wakeup.wake();
  }

  /**
   * Checks until `signal` aborts. After a time in which the process did not run, it first waits
   * until the server's data is read, or asked for again.
   */
  async run(signal: AbortSignal): Promise<void> {
    let lastMs = performance.now();
    let fromMs = lastMs;
    signal.addEventListener('abort', () => this.#wakeup.wake(), { once: true });
    while (!signal.aborted) {
      const nowMs = performance.now();
      if (nowMs - lastMs >= lateMs) fromMs = nowMs + firstReportMs;
      if (nowMs >= fromMs) this.check();
      const waitMs = this.#nextCheckMs();
      lastMs = nowMs + waitMs;
      const isWoken = await this.#wakeup.wait(waitMs);
      if (isWoken) await pause(checkMs, signal);
    }
  }

  /** How long no report can be due. */
  #nextCheckMs(): number {
    const waitsMs = resources.map((resource) => {
      const { failure, missingMs, silenceMs = 0 } = this.#options.source.condition(resource);
      return (failure ?? missingMs) === undefined ? staleAfterMs - silenceMs : 0;
    });
    return Math.max(checkMs, Math.min(wellCheckMs, ...waitsMs));
  }

  /** Reports an outage of the server, or else what single watches lack. */
  check(): void {
    const isOut = this.#reportOutage();
    if (!isOut) for (const problem of this.#held) this.#options.problem(problem);
    this.#held = [];
    for (const resource of resources) {
      const { missingMs, silenceMs = 0, failure } = this.#options.source.condition(resource);
      if (missingMs !== undefined) {
        const err = failure ?? 'the API server has not answered yet';
        this.#report(resource, missingMs, err, 'Still waiting for the first list');
      } else if (silenceMs > staleAfterMs && !isOut) {
        const err = failure ?? 'the API server sends nothing';
        this.#report(resource, silenceMs, err, 'Watch is silent');
        this.#silentMs.set(resource, silenceMs);
      } else {
        this.#dueMs.delete(resource);
        if (silenceMs <= staleAfterMs) this.#reportHeard(resource);
      }
    }
  }

  #reportHeard(resource: Watched): void {
    const silentMs = this.#silentMs.get(resource);
    if (silentMs === undefined) return;
    this.#silentMs.delete(resource);
    const seconds = Math.round(silentMs / 1000);
    this.#options.log.info({ resource, seconds }, 'Watch delivers again');
  }

  /** Reports its begin, from time to time that it lasts, and its end. Returns whether it lasts. */
  #reportOutage(): boolean {
    const { log, source } = this.#options;
    const used = resources
      .map((resource) => source.condition(resource))
      .filter(({ missingMs, silenceMs }) => (missingMs ?? silenceMs) !== undefined);
    const failures = used.flatMap(({ failure }) => failure ?? []);
    const isOut = used.length > 0 && failures.length === used.length;
    const about = { server: source.server(), err: failures[0] };
    const nowMs = performance.now();
    const { sinceMs = nowMs, dueMs = staleAfterMs } = this.#outage ?? {};
    const forMs = nowMs - sinceMs;
    const seconds = Math.round(forMs / 1000);
    if (isOut && this.#outage === undefined) {
      this.#outage = { sinceMs, dueMs };
      log.warn(about, 'Lost the API server; rules stay in force');
    } else if (isOut && forMs >= dueMs) {
      this.#outage!.dueMs = Math.min(2 * forMs, forMs + repeatMs);
      log.error({ ...about, seconds }, 'API server still does not answer; changes are missing');
    } else if (!isOut && this.#outage !== undefined) {
      this.#outage = undefined;
      log.info({ server: about.server, seconds }, 'API server answers again');
    }
    return isOut;
  }

  #report(resource: Watched, forMs: number, err: string, words: string): void {
    if (forMs < (this.#dueMs.get(resource) ?? firstReportMs)) return;
    this.#dueMs.set(resource, Math.min(2 * forMs, forMs + repeatMs));
    const level = forMs < errorAfterMs ? 'warn' : 'error';
    const seconds = Math.round(forMs / 1000);
    this.#options.log[level]({ resource, seconds, err }, words);
  }
}
