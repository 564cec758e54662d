/** Logs how the source lists and watches, and how long that has been failing. */

import type { Condition, ListAttempt, ListMethod, Watched } from '../source/source.ts';
import { type Resource, resources } from '../state/change.ts';
import { pause } from '../time/clock.ts';
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
  readonly source: { condition(resource: Resource): Condition };
}

export class SourceReport {
  readonly #options: SourceReportOptions;
  /** The last list method of each resource. */
  readonly #methods = new Map<Watched, ListMethod>();
  /** When to report each resource next, in milliseconds since its trouble began. */
  readonly #dueMs = new Map<Watched, number>();

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

  /**
   * Checks until `signal` aborts. After a time in which the process did not run, it first waits
   * until the server's data is read, or asked for again.
   */
  async run(signal: AbortSignal): Promise<void> {
    let lastMs = performance.now();
    let fromMs = lastMs;
    while (!signal.aborted) {
      const nowMs = performance.now();
      if (nowMs - lastMs >= lateMs) fromMs = nowMs + firstReportMs;
      if (nowMs >= fromMs) this.check();
      const waitMs = this.#nextCheckMs();
      lastMs = nowMs + waitMs;
      await pause(waitMs, signal);
    }
  }

  /** How long no report can be due. */
  #nextCheckMs(): number {
    const waitsMs = resources.map((resource) => {
      const { missingMs, silenceMs = 0 } = this.#options.source.condition(resource);
      return missingMs === undefined ? staleAfterMs - silenceMs : 0;
    });
    return Math.max(checkMs, Math.min(wellCheckMs, ...waitsMs));
  }

  /** Reports missing first lists and silent watches. */
  check(): void {
    for (const resource of resources) {
      const { missingMs, silenceMs = 0, failure } = this.#options.source.condition(resource);
      if (missingMs !== undefined) {
        const err = failure ?? 'the API server has not answered yet';
        this.#report(resource, missingMs, err, 'Still waiting for the first list');
      } else if (silenceMs > staleAfterMs) {
        const err = failure ?? 'the API server sends nothing';
        this.#report(resource, silenceMs, err, 'Watch is silent');
      } else {
        this.#dueMs.delete(resource);
      }
    }
  }

  #report(resource: Watched, forMs: number, err: string, words: string): void {
    if (forMs < (this.#dueMs.get(resource) ?? firstReportMs)) return;
    this.#dueMs.set(resource, Math.min(2 * forMs, forMs + repeatMs));
    const level = forMs < errorAfterMs ? 'warn' : 'error';
    const seconds = Math.round(forMs / 1000);
    this.#options.log[level]({ resource, seconds, err }, words);
  }
}
