import { Cursor, type Pending } from '../state/cursor.ts';
import { slotsOf } from '../state/deal.ts';
import type { Forwarding } from '../state/types.ts';
import { type Cause, joined } from './cause.ts';
import type { Tracked } from './tracked.ts';

/**
 * What is marked of a Service, whose key it has. Most have one port, and need no Map of their own.
 * It costs what all that was marked costs until nothing is left.
 */
interface Marked extends Pending {
  /** The next Forwarding. */
  record: Tracked;
  /** Those after it. */
  rest: Set<Tracked> | undefined;
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
    return this.#services.next()?.record.cause?.receivedMs;
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
    record.cause = joined(record.cause, cause);
    const isMarked = record.isDirty;
    record.isDirty = true;
    const marked = this.#services.get(service);
    if (marked === undefined) {
      const cost = elementsOf(record);
      this.#services.add({ key: service, record, rest: undefined, cost, group: undefined });
      return cost < smallMax;
    }
    if (!isMarked) {
      marked.rest ??= new Set();
      marked.rest.add(record);
      this.#services.grow(marked, elementsOf(record));
    }
    return marked.cost < smallMax;
  }

  delete(record: Tracked): void {
    record.cause = undefined;
    const marked = record.isDirty ? this.#services.get(serviceOf(record.key)) : undefined;
    if (marked === undefined) return;
    record.isDirty = false;
    if (marked.record !== record) marked.rest?.delete(record);
    else if (!advance(marked)) this.#services.done(marked);
  }

  /** The next one. */
  get next(): Tracked | undefined {
    return this.#services.next(this.#groupsNow)?.record;
  }

  /** Removes the next one. Its Service goes to the end. Returns how many elements it compares. */
  take(): number {
    const marked = this.#services.next(this.#groupsNow);
    if (marked === undefined) return 0;
    const { record } = marked;
    const elements = elementsOf(record);
    record.isDirty = false;
    this.#services.take(this.#groupsNow)(elements);
    if (advance(marked)) this.#services.release(marked);
    else this.#services.done(marked);
    return elements;
  }

  /** Removes and returns all. */
  takeAll(): readonly Tracked[] {
    const all: Tracked[] = [];
    for (const marked of this.#services) {
      all.push(marked.record, ...(marked.rest ?? []));
      this.#services.done(marked);
    }
    for (const record of all) record.isDirty = false;
    return all;
  }
}

/** Goes to the Forwarding after the next one. Returns whether there is one. */
function advance(marked: Marked): boolean {
  const [after] = marked.rest ?? [];
  if (after === undefined) return false;
  marked.record = after;
  marked.rest!.delete(after);
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
