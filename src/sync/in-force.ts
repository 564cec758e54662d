/** What the kernel has acknowledged of one family: the only record of it. */
import type { Environment, Planner } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import type { Cause } from './cause.ts';

/** A change that is in force now. It may be none: a repair publishes everything. */
export interface AppliedChange {
  readonly key: string;
  /** Undefined = there was none, or none is known. */
  readonly previous: Forwarding | undefined;
  /** Undefined = it is gone. */
  readonly next: Forwarding | undefined;
  /** What came from outside, where that is known. */
  readonly cause: Cause | undefined;
}

/** Others subscribe to its changes, and keep only what they look up. */
export class InForce {
  readonly #subscriber: (change: AppliedChange) => void;
  #forwardings = new Map<string, Forwarding>();
  /** What was in force before the repair that is under way or due; empty = none is. */
  #before: ReadonlyMap<string, Forwarding> = new Map();

  constructor(subscriber: (change: AppliedChange) => void) {
    this.#subscriber = subscriber;
  }

  /** By key. During a repair, what the repair has come to. */
  get forwardings(): ReadonlyMap<string, Forwarding> {
    return this.#forwardings;
  }

  /** What was in force of the key before a repair, or is in force while there is none. */
  lastKnown(key: string): Forwarding | undefined {
    return this.#before.get(key) ?? this.#forwardings.get(key);
  }

  /** Records a change that the kernel has acknowledged, and publishes it. */
  set(key: string, next: Forwarding | undefined, cause: Cause | undefined): void {
    const previous = this.#forwardings.get(key) ?? this.#before.get(key);
    if (next === undefined) this.#forwardings.delete(key);
    else this.#forwardings.set(key, next);
    this.#subscriber({ key, previous, next, cause });
  }

  /** A repair begins, which sets everything. One that failed has known less than the first. */
  beginRepair(): void {
    if (this.#before.size === 0) this.#before = this.#forwardings;
    this.#forwardings = new Map();
  }

  /** A repair has succeeded. Publishes what it has deleted, which no batch recorded. */
  endRepair(): void {
    const before = this.#before;
    this.#before = new Map();
    for (const [key, previous] of before) {
      if (this.#forwardings.has(key)) continue;
      this.#subscriber({ key, previous, next: undefined, cause: undefined });
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
