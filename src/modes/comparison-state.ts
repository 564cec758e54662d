import { type Found, noCounts, type Types } from './backend.ts';
import type { Needed } from './shared-objects.ts';

/** A comparison with the kernel, from the beginning of the reading. */
export class Comparison<T extends Types> {
  /** Undefined until all is read. */
  found: (T['found'] & Found<T>) | undefined;
  /** Ids of what batches have written since the reading began. */
  readonly touched = new Set<string>();
  /** Keys of Forwardings that it leaves as they are. */
  readonly left = new Set<string>();
  /** Fixed objects are repaired. */
  isBegun = false;
  /** Drift that claims have found since. */
  readonly uncounted = noCounts();
  /** Ids of shared objects that it has compared. */
  readonly compared = new Set<string>();
  /** Shared objects that it compares at its end. */
  readonly madeLast: Needed<T['shared']>[] = [];
}

/** A comparison for which all is read. */
export type ReadComparison<T extends Types> = Comparison<T> & {
  readonly found: T['found'] & Found<T>;
};
