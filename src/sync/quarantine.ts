/** The Forwardings that the kernel refused, until they are tried again. */
import type { KernelFailure } from '../kernel/kernel.ts';
import { isSame } from '../state/pool.ts';
import type { Forwarding, ForwardingsByKey } from '../state/types.ts';
import { type BackoffLimits, backoffMs } from '../time/backoff.ts';
import type { Clock } from '../time/clock.ts';

/** A Forwarding that the kernel refused. */
export interface Quarantined {
  readonly key: string;
  readonly forwarding: Forwarding;
  readonly failure: KernelFailure;
  readonly attempts: number;
  readonly failedAtMs: number;
  /** `Clock.now` of the next attempt; Infinity = only when something else is desired of it. */
  readonly retryAtMs: number;
  /** The earlier form of it that is in force; undefined = none. */
  readonly inForce: Forwarding | undefined;
  /**
   * The kernel refused that form, too, or it is not known: repairs leave what there is of it, and
   * only a repair can try it again.
   */
  readonly isLeft: boolean;
}

/** What the kernel refuses at present, by the key of the Forwarding. */
export type Refusals = Pick<Quarantine, 'get' | 'size'> & Iterable<Quarantined>;

/** A second contradiction of one Forwarding within this time puts it in quarantine. */
const contradictionMs = 10_000;
/** How often that is excused where other programs have written since the kernel was read. */
const contradictionsMost = 50;

const never = { failures: 0, lastMs: Number.NEGATIVE_INFINITY };

const none: readonly string[] = [];

/**
 * Keeps Forwardings out of batches, so that others are applied. Failures of a Forwarding are
 * counted until it has had none for twice the longest delay, even if it worked in between.
 */
export class Quarantine {
  readonly #entries = new Map<string, Quarantined>();
  /** By key, in the order of their last failures. */
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
    rest: Pick<Quarantined, 'inForce' | 'isLeft'>,
  ): Quarantined {
    const attempts = this.#count(key);
    const failedAtMs = this.#clock.now();
    const delayMs = failure.isLasting
      ? Number.POSITIVE_INFINITY
      : backoffMs(this.#limits, attempts, this.#clock.random());
    const retryAtMs = failedAtMs + delayMs;
    const entry = { key, forwarding, failure, attempts, failedAtMs, retryAtMs, ...rest };
    this.#entries.set(key, entry);
    return entry;
  }

  /**
   * The kernel was not as we thought when this was written. Once, no Forwarding is blamed for it,
   * and more often if other programs have written since the kernel was read (`isMoved`). Returns
   * true when it has happened so often that others must not wait any more.
   */
  contradicted(key: string, isMoved: boolean): boolean {
    const { failures, lastMs } = this.#history.get(key) ?? never;
    const isRecent = this.#clock.now() - lastMs <= contradictionMs;
    if (isMoved ? failures >= contradictionsMost : isRecent) return true;
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

  get(key: string): Quarantined | undefined {
    return this.#entries.get(key);
  }

  /** Whether a sync must not try the key now. */
  holds(key: string): boolean {
    const entry = this.#entries.get(key);
    return entry !== undefined && (entry.isLeft || this.#clock.now() < entry.retryAtMs);
  }

  /** Nothing of the key is in the kernel, so that nothing is left there. */
  gone(key: string): void {
    const entry = this.#entries.get(key);
    if (entry) this.#entries.set(key, { ...entry, inForce: undefined, isLeft: false });
  }

  /** The next repair tries what is desired of the keys that are left and due; false: none is. */
  takeLeft(desired: ForwardingsByKey): boolean {
    const left = this.due().filter((key) => this.#entries.get(key)!.isLeft);
    for (const key of left) {
      const entry = this.#entries.get(key)!;
      this.#entries.set(key, { ...entry, inForce: desired.get(key), isLeft: false });
    }
    return left.length > 0;
  }

  /**
   * What is desired of a key in quarantine has changed, and may work now: it is tried after the
   * first delay, however often it changes. Returns whether that is sooner than before.
   */
  changed(key: string): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    const soonestMs = entry.failedAtMs + this.#limits.firstMs;
    const isSooner = soonestMs < entry.retryAtMs;
    if (isSooner) this.#entries.set(key, { ...entry, retryAtMs: soonestMs });
    return isSooner;
  }

  /**
   * Records what of the key is in force. When that is what is desired, and not only left, the key
   * leaves quarantine, and the entry that it had is returned.
   */
  committed(
    key: string,
    inForce: Forwarding | undefined,
    desired: Forwarding | undefined,
  ): Quarantined | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    if (!entry.isLeft && isSame(inForce, desired)) {
      this.#entries.delete(key);
      return entry;
    }
    this.#entries.set(key, { ...entry, inForce });
    return undefined;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Keys that may be tried again now. */
  due(): readonly string[] {
    if (this.#entries.size === 0) return none;
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

  [Symbol.iterator](): Iterator<Quarantined> {
    return this.#entries.values();
  }
}
