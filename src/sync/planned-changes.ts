import type { Forwarding } from '../state/types.ts';
import { type Cause, joined } from './cause.ts';
import type { Tracked } from './tracked.ts';

/** The change of one Forwarding. */
export interface Change {
  readonly record: Tracked;
  /** Undefined = it is no longer desired. */
  readonly next: Forwarding | undefined;
  readonly cause: Cause | undefined;
}

/** Changes that come into force together, each Forwarding once, in the order of the last ones. */
export class PlannedChanges {
  /** Undefined: the Forwarding has changed again since then. */
  readonly #changes: (Change | undefined)[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /**
   * Adds a change at the end, also if the Forwarding has one already: it may claim a frontend that
   * another one has released since then.
   */
  add(record: Tracked, next: Forwarding | undefined, cause: Cause | undefined): void {
    const earlier = this.#changes[record.slot];
    const isOwn = earlier?.record === record;
    if (isOwn) this.#changes[record.slot] = undefined;
    else this.#size += 1;
    record.slot = this.#changes.length;
    this.#changes.push({ record, next, cause: isOwn ? joined(earlier.cause, cause) : cause });
  }

  *[Symbol.iterator](): Generator<Change> {
    for (const change of this.#changes) if (change !== undefined) yield change;
  }
}
