/** What the kernel has acknowledged of one family, for those who follow it. */
import type { Environment, Planner } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import type { Cause } from './cause.ts';
import type { Tracked, TrackedForwardings } from './tracked.ts';

/** A change that is in force now. It may be none: a repair publishes everything. */
export interface AppliedChange {
  readonly record: Tracked;
  /** Undefined = there was none, or none is known. */
  readonly previous: Forwarding | undefined;
  /** Undefined = it is gone. */
  readonly next: Forwarding | undefined;
  /** What came from outside, where that is known. */
  readonly cause: Cause | undefined;
}

/** Others subscribe to its changes, and keep only what they look up. */
export class InForce {
  readonly #tracked: TrackedForwardings;
  readonly #subscriber: (change: AppliedChange) => void;
  /** What was in force before the repair that is under way or due; empty = none is. */
  #before = new Map<string, Forwarding>();

  constructor(tracked: TrackedForwardings, subscriber: (change: AppliedChange) => void) {
    this.#tracked = tracked;
    this.#subscriber = subscriber;
  }

  /** What was in force of it before a repair, or is in force while there is none. */
  lastKnown({ inForce, key }: Tracked): Forwarding | undefined {
    return this.#before.get(key) ?? inForce;
  }

  /** Records a change that the kernel has acknowledged, and publishes it. */
  set(record: Tracked, next: Forwarding | undefined, cause: Cause | undefined): void {
    const { key } = record;
    const previous = record.inForce ?? this.#before.get(key);
    this.#tracked.setInForce(record, next);
    this.#subscriber({ record, previous, next, cause });
  }

  /** A repair begins, which sets everything. One that failed may have set only a part. */
  beginRepair(): void {
    for (const [key, one] of this.#tracked.inForce) this.#before.set(key, one);
    this.#tracked.forget();
  }

  /** A repair has succeeded. Publishes what it has deleted, which no batch recorded. */
  endRepair(): void {
    const before = this.#before;
    this.#before = new Map();
    for (const [key, previous] of before) {
      const record = this.#tracked.at(key);
      if (record.inForce !== undefined) continue;
      this.#subscriber({ record, previous, next: undefined, cause: undefined });
    }
  }
}

/** Those at present: see `Planner.unswept`. */
export type Unswept = () => Planner['unswept'];

/**
 * Follows what one family has in force, for state outside the rules that depends on them: entries
 * of connection tracking, maps of connect time, sockets on loopback addresses.
 */
export interface ForwardingFollower {
  /** Until the next `upToDate`, the kernel may hold changes that `changed` has not reported yet. */
  moving(): void;
  /** A change is in force now (see `AppliedChange`). */
  changed(
    previous: Forwarding | undefined,
    next: Forwarding | undefined,
    cause: Cause | undefined,
  ): void;
  /**
   * `changed` has reported all that is in force, in this environment. Of Forwardings that `unswept`
   * names, packets may still make connections to endpoints that are gone: who looks for these looks
   * again when it names them no more. `upToDate` is called then.
   */
  upToDate(environment: Environment, unswept: Unswept): void;
}
