import type { Clock } from '../time/clock.ts';

interface ReportLimiterOptions {
  readonly clock: Pick<Clock, 'after'>;
  /** `count` reports about the subject for this reason were left out recently. */
  readonly leftOut: (subject: string, reason: string, count: number) => void;
}

/** The most reports about one subject for one reason in a period. */
const reportsMax = 10;
const periodMs = 60_000;

/**
 * How many subjects and reasons are counted one by one. All others count as one subject per reason.
 */
const countedMax = 1000;
const others = 'others';

interface Count {
  readonly subject: string;
  readonly reason: string;
  reports: number;
}

/**
 * Limits reports, so that those about one object do not hide others: a Service with 4,000 ports can
 * have 4,000 faults, ten times a second. Reports above the limit are left out, and their number is
 * reported at the end of the period.
 */
export class ReportLimiter {
  readonly #options: ReportLimiterOptions;
  readonly #counts = new Map<string, Count>();
  #cancel: (() => void) | undefined;

  constructor(options: ReportLimiterOptions) {
    this.#options = options;
  }

  /** Subjects and reasons that are counted. */
  get size(): number {
    return this.#counts.size;
  }

  /** Whether to make a report. `reason` is its kind, of which there are few. */
  admits(subject: string, reason: string): boolean {
    const count = this.#countOf(subject, reason) ?? this.#countOf(others, reason)!;
    count.reports += 1;
    this.#cancel ??= this.#options.clock.after(periodMs, () => this.#end());
    return count.reports <= reportsMax;
  }

  /** Reports the number left out so far. */
  close(): void {
    this.#cancel?.();
    this.#end();
  }

  /** Undefined if no further subject can be counted. */
  #countOf(subject: string, reason: string): Count | undefined {
    const key = `${reason} ${subject}`;
    const known = this.#counts.get(key);
    if (known !== undefined) return known;
    if (this.#counts.size >= countedMax && subject !== others) return undefined;
    const count = { subject, reason, reports: 0 };
    this.#counts.set(key, count);
    return count;
  }

  #end(): void {
    this.#cancel = undefined;
    const counts = [...this.#counts.values()];
    this.#counts.clear();
    for (const { subject, reason, reports } of counts) {
      if (reports > reportsMax) this.#options.leftOut(subject, reason, reports - reportsMax);
    }
  }
}
