import { Cursor, type Pending } from '../state/cursor.ts';
import { slotsOf } from '../state/deal.ts';
import type { Forwarding } from '../state/types.ts';
import { type Cause, joined } from './cause.ts';
import type { Tracked } from './tracked.ts';

/** Forwardings, and why each changed, where that is known. */
export type Causes = Map<Tracked, Cause | undefined>;

/**
 * What is marked of a Service, whose key it has. Most have one port, and need no Map of their own.
 * It costs what all that was marked costs until nothing is left.
 */
interface Marked extends Pending {
  /** The next Forwarding, and why it changed. */
  record: Tracked;
  cause: Cause | undefined;
  /** Those after it. */
  rest: Causes | undefined;
}

/** The groups of `CostGroups` whose Services have small changes. */
const smallGroups = 5;

/** A change of this number of elements is large: it takes the kernel some 10 ms. */
const smallMax = 4 ** smallGroups;

/**
 * The Forwardings that changed since they were last planned. Services whose changes have about as
 * many elements take turns, one Forwarding at a time, and those with few do not wait for those with
 * many (`CostGroups`).
 */
export class DirtyForwardings {
  readonly #services = new Cursor<Marked>();
  /** Undefined: all. */
  #groupsNow: number | undefined;

  get any(): boolean {
    return this.#services.size > 0;
  }

  /** The number of Services with dirty Forwardings. */
  get services(): number {
    return this.#services.size;
  }

  /** `Clock.now` when the change came that is next; undefined = nothing from outside is next. */
  get nextReceivedMs(): number | undefined {
    return this.#services.next()?.cause?.receivedMs;
  }

  /** Whether `next` and `take` leave Services out whose changes have many elements. */
  set isOnlySmall(is: boolean) {
    this.#groupsNow = is ? smallGroups : undefined;
  }

  get isOnlySmall(): boolean {
    return this.#groupsNow !== undefined;
  }

  /** Whether the next one belongs to a Service whose change has many elements. */
  get isNextLarge(): boolean {
    return (this.#services.next(this.#groupsNow)?.cost ?? 0) >= smallMax;
  }

  /**
   * Marks the Forwarding. The cause of one that is marked already is joined with this one.
   * `service`: its Service, as callers have it that mark many: a part of the key is a new string,
   * and has to be hashed. Returns whether the change of the Service has few elements so far.
   */
  mark(record: Tracked, cause: Cause | undefined, service = serviceOf(record.key)): boolean {
    const marked = this.#services.get(service);
    if (marked === undefined) {
      const cost = elementsOf(record);
      this.#services.add({ key: service, record, cause, rest: undefined, cost, group: undefined });
      return cost < smallMax;
    }
    if (marked.record === record) marked.cause = joined(marked.cause, cause);
    else {
      marked.rest ??= new Map();
      if (!marked.rest.has(record)) this.#services.grow(marked, elementsOf(record));
      marked.rest.set(record, joined(marked.rest.get(record), cause));
    }
    return marked.cost < smallMax;
  }

  has(record: Tracked): boolean {
    const marked = this.#services.get(serviceOf(record.key));
    return marked?.record === record || marked?.rest?.has(record) === true;
  }

  delete(record: Tracked): void {
    const marked = this.#services.get(serviceOf(record.key));
    if (marked === undefined) return;
    if (marked.record !== record) marked.rest?.delete(record);
    else if (!advance(marked)) this.#services.done(marked);
  }

  /** The next one. */
  get next(): Tracked | undefined {
    return this.#services.next(this.#groupsNow)?.record;
  }

  /** Removes the next one and returns why it changed. Its Service goes to the end. */
  take(): Cause | undefined {
    const marked = this.#services.next(this.#groupsNow);
    if (marked === undefined) return undefined;
    const { cause, record } = marked;
    this.#services.take(this.#groupsNow)(elementsOf(record));
    if (advance(marked)) this.#services.release(marked);
    else this.#services.done(marked);
    return cause;
  }

  /** Removes and returns all. */
  takeAll(): Causes {
    const all: Causes = new Map();
    for (const marked of this.#services) {
      all.set(marked.record, marked.cause);
      for (const [other, why] of marked.rest ?? []) all.set(other, why);
      this.#services.done(marked);
    }
    return all;
  }
}

/** Goes to the Forwarding after the next one. Returns whether there is one. */
function advance(marked: Marked): boolean {
  const after = marked.rest?.entries().next().value;
  if (after === undefined) return false;
  [marked.record, marked.cause] = after;
  marked.rest!.delete(marked.record);
  return true;
}

/** How many elements a change from what is planned to what is desired compares; at least 1. */
function elementsOf({ desired, planned }: Tracked): number {
  return desired === planned ? 1 : 1 + countOf(desired) + countOf(planned);
}

function countOf(forwarding: Forwarding | undefined): number {
  if (forwarding === undefined) return 0;
  const [cluster, local] = [slotsOf(forwarding, 'cluster'), slotsOf(forwarding, 'local')];
  const slots = cluster.length + (local === cluster ? 0 : local.length);
  return forwarding.frontends.length * (1 + slots);
}

/** The `namespace/name` of a Forwarding's key `namespace/name[:port]/protocol`. */
export function serviceOf(key: string): string {
  const port = key.indexOf(':');
  return key.slice(0, port < 0 ? key.lastIndexOf('/') : port);
}
