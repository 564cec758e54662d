import { type FixedRepair, type Found, noCounts, type Types } from './backend.ts';
import type { Needed } from './shared-objects.ts';

export type FoundOf<T extends Types> = T['found'] & Found<T>;

/** A comparison with the kernel, from the beginning of the reading. */
export class Comparison<T extends Types> {
  readonly found: FoundOf<T>;
  /** All is read, and fixed objects are repaired. */
  isBegun = false;
  /** Drift that claims have found meanwhile. */
  readonly uncounted = noCounts();
  /** Ids of shared objects that it has compared. */
  readonly compared = new Set<string>();
  /** Shared objects that it compares at its end. */
  readonly madeLast: Needed<T['shared']>[] = [];
  /** Its end: see `FixedRepair`. */
  prune: FixedRepair<T['writer']>['prune'];

  constructor(found: FoundOf<T>) {
    this.found = found;
  }
}
