/** When to try again: backoff, and the Forwardings that are set aside because they failed. */
import type { KernelFailure } from '../kernel/kernel.ts';
import type { Forwarding } from '../state/types.ts';
import type { Clock } from './clock.ts';

export interface BackoffLimits {
  /** Delay after the first failure; 0 = at once. */
  readonly firstMs: number;
  /** Delay after the second failure; it doubles from there. */
  readonly secondMs: number;
  readonly maxMs: number;
}

/** The delay before attempt `failures + 1`, with a fifth of jitter either way; at most `maxMs`. */
export function backoffMs(limits: BackoffLimits, failures: number, random: number): number {
  if (failures <= 1) return limits.firstMs;
  const exact = limits.secondMs * 2 ** Math.min(failures - 2, 30);
  return Math.min(limits.maxMs, exact * (0.8 + 0.4 * random));
}

/** How often it is looked whether what another process holds has become free: that costs little. */
const heldMs = 250;

/**
 * Counts failures of one activity. Success does not clear the count at once: work that fails and
 * succeeds in turns must slow down too. A quiet time of twice the longest delay clears it.
 */
export class Backoff {
  readonly #limits: BackoffLimits;
  readonly #clock: Clock;
  #failures = 0;
  #lastMs = 0;

  constructor(limits: BackoffLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** Records a failure; returns how long to wait before trying again. */
  failed(failures: readonly KernelFailure[] = []): number {
    if (failures.some(({ isHeld }) => isHeld)) return heldMs;
    const now = this.#clock.now();
    if (now - this.#lastMs > 2 * this.#limits.maxMs) this.#failures = 0;
    this.#failures += 1;
    this.#lastMs = now;
    return backoffMs(this.#limits, this.#failures, this.#clock.random());
  }
}

/** A Forwarding that the kernel refused, until it is tried again. */
export interface Aside {
  readonly key: string;
  readonly forwarding: Forwarding;
  readonly failure: KernelFailure;
  readonly attempts: number;
  readonly failedAtMs: number;
  /** Infinity = only when something else is wanted of it. */
  readonly retryAtMs: number;
  /** What of it is in force instead; undefined = nothing. */
  readonly inForce: Forwarding | undefined;
}

/** Two contradictions of one Forwarding within this time are not by chance. */
const contradictionMs = 10_000;

/**
 * The Forwardings that are set aside, so that the rest goes on without them. Failures are counted
 * over times that one worked in, too, until it has been quiet for twice the longest delay.
 */
export class SetAside {
  readonly #entries = new Map<string, Aside>();
  /** The one that failed last is last. */
  readonly #history = new Map<string, { readonly failures: number; readonly lastMs: number }>();
  readonly #limits: BackoffLimits;
  readonly #clock: Clock;

  constructor(limits: BackoffLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  add(
    key: string,
    forwarding: Forwarding,
    failure: KernelFailure,
    inForce: Forwarding | undefined,
  ): Aside {
    const attempts = this.#count(key);
    const failedAtMs = this.#clock.now();
    const delayMs = failure.isLasting
      ? Number.POSITIVE_INFINITY
      : backoffMs(this.#limits, attempts, this.#clock.random());
    const retryAtMs = failedAtMs + delayMs;
    const entry = { key, forwarding, failure, attempts, failedAtMs, retryAtMs, inForce };
    this.#entries.set(key, entry);
    return entry;
  }

  /**
   * The kernel was not what we believed when this was written. That is nobody's fault once; true
   * when it happens again so soon that the others must not go on waiting for its sake.
   */
  contradicted(key: string): boolean {
    const { lastMs } = this.#history.get(key) ?? { lastMs: Number.NEGATIVE_INFINITY };
    if (this.#clock.now() - lastMs <= contradictionMs) return true;
    this.#count(key);
    return false;
  }

  #count(key: string): number {
    const now = this.#clock.now();
    for (const [old, { lastMs }] of this.#history) {
      if (now - lastMs <= 2 * this.#limits.maxMs) break;
      this.#history.delete(old);
    }
    const failures = (this.#history.get(key)?.failures ?? 0) + 1;
    this.#history.delete(key);
    this.#history.set(key, { failures, lastMs: now });
    return failures;
  }

  get(key: string): Aside | undefined {
    return this.#entries.get(key);
  }

  /** Whether the key must not be tried now. */
  holds(key: string): boolean {
    const entry = this.#entries.get(key);
    return entry !== undefined && this.#clock.now() < entry.retryAtMs;
  }

  /**
   * What is wanted of a key that is set aside has changed, which may be the cure: try again as
   * soon as the first delay allows, but not faster, however often it changes.
   */
  changed(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    const soonestMs = entry.failedAtMs + this.#limits.firstMs;
    if (soonestMs < entry.retryAtMs) this.#entries.set(key, { ...entry, retryAtMs: soonestMs });
  }

  /**
   * This of the key is in force now. When that is all that is wanted of it, it is no longer set
   * aside: then the result is what it was.
   */
  committed(
    key: string,
    inForce: Forwarding | undefined,
    wanted: Forwarding | undefined,
  ): Aside | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (inForce === wanted) {
      this.#entries.delete(key);
      return entry;
    }
    this.#entries.set(key, { ...entry, inForce });
    return undefined;
  }

  keys(): Iterable<string> {
    return this.#entries.keys();
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Keys that may be tried again now. */
  due(): string[] {
    const now = this.#clock.now();
    return [...this.#entries.values()].filter((e) => now >= e.retryAtMs).map(({ key }) => key);
  }

  /** When the first of them is due; undefined when there is none. */
  nextMs(): number | undefined {
    let next: number | undefined;
    for (const { retryAtMs } of this.#entries.values()) {
      if (next === undefined || retryAtMs < next) next = retryAtMs;
    }
    return next;
  }

  values(): Iterable<Aside> {
    return this.#entries.values();
  }
}
