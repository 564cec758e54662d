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
 * How many subjects and reasons are counted one by one: of one namespace, so that no tenant takes
 * the place of others, and of all. All others of a namespace count as one subject per reason.
 */
const countedMax = { namespace: 100, all: 1000 } as const;
/** With the others of namespaces. Beyond it, all others count as one. */
const heldMax = 2 * countedMax.all;

interface Count {
  readonly subject: string;
  readonly reason: string;
  reports: number;
}

/**
 * Limits reports, so that those about one object do not hide others: a Service with 4,000 ports can
 * have 4,000 faults, ten times a second, and a namespace can have thousands of such Services.
 * Reports above the limit are left out, and their number is reported at the end of the period.
 */
export class ReportLimiter {
  readonly #options: ReportLimiterOptions;
  readonly #counts = new Map<string, Count>();
  /** How many subjects and reasons of each namespace are counted one by one. */
  readonly #inNamespace = new Map<string, number>();
  #cancel: (() => void) | undefined;

  constructor(options: ReportLimiterOptions) {
    this.#options = options;
  }

  /** Subjects and reasons that are counted. */
  get size(): number {
    return this.#counts.size;
  }

  /**
   * Whether to make a report. `subject`: an object, with its namespace and its name if it has
   * both: `shop/web`, `EndpointSlice shop/web-1`. `reason` is its kind, of which there are few.
   */
  admits(subject: string, reason: string): boolean {
    const count = this.#countOf(subject, reason);
    count.reports += 1;
    this.#cancel ??= this.#options.clock.after(periodMs, () => this.#end());
    return count.reports <= reportsMax;
  }

  /** Reports the number left out so far. */
  close(): void {
    this.#cancel?.();
    this.#end();
  }

  #countOf(subject: string, reason: string): Count {
    const known = this.#counts.get(keyOf(subject, reason));
    if (known !== undefined) return known;
    const namespace = namespaceOf(subject);
    const own = this.#inNamespace.get(namespace) ?? 0;
    if (this.#counts.size < countedMax.all && own < countedMax.namespace) {
      this.#inNamespace.set(namespace, own + 1);
      return this.#begin(subject, reason);
    }
    const others = namespace === '' ? 'others' : `others in ${namespace}`;
    const ofNamespace = this.#counts.get(keyOf(others, reason));
    if (ofNamespace !== undefined) return ofNamespace;
    if (this.#counts.size < heldMax) return this.#begin(others, reason);
    return this.#counts.get(keyOf('others', reason)) ?? this.#begin('others', reason);
  }

  #begin(subject: string, reason: string): Count {
    const count = { subject, reason, reports: 0 };
    this.#counts.set(keyOf(subject, reason), count);
    return count;
  }

  #end(): void {
    this.#cancel = undefined;
    const counts = [...this.#counts.values()];
    this.#counts.clear();
    this.#inNamespace.clear();
    for (const { subject, reason, reports } of counts) {
      if (reports > reportsMax) this.#options.leftOut(subject, reason, reports - reportsMax);
    }
  }
}

function keyOf(subject: string, reason: string): string {
  return `${reason} ${subject}`;
}

/** Empty: it is in none. */
function namespaceOf(subject: string): string {
  const [, namespace = ''] = /^(?:\S+ )?([^/\s]+)\/\S/.exec(subject) ?? [];
  return namespace;
}
