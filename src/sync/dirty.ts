import { type Cause, joined } from './cause.ts';
import type { Tracked } from './tracked.ts';

/** Forwardings, and why each changed, where that is known. */
export type Causes = Map<Tracked, Cause | undefined>;

/** What is marked of a Service. Most have one port, and need no Map of their own. */
interface Marked {
  /** Its `namespace/name`. */
  readonly service: string;
  /** The next Forwarding, and why it changed. */
  record: Tracked;
  cause: Cause | undefined;
  /** Those after it. */
  rest: Causes | undefined;
}

/**
 * The Forwardings that changed since they were last planned. Services take turns, one Forwarding at
 * a time, so that a Service with thousands of ports does not hold up others.
 */
export class DirtyForwardings {
  /** By Service, the next one first. */
  readonly #waiting = new Map<string, Marked>();
  /**
   * Goes through `#waiting` once, and so comes to each Service when it is next. A walk from the
   * front would pass what has been deleted there: for 44,000 Services that takes 0.2 s.
   */
  #walk = this.#waiting.values();
  /** What is next, once `#walk` has come to it. */
  #first: Marked | undefined;

  get any(): boolean {
    return this.#waiting.size > 0;
  }

  /** The number of Services with dirty Forwardings. */
  get services(): number {
    return this.#waiting.size;
  }

  /** `Clock.now` when the change came that is next; undefined = nothing from outside is next. */
  get nextReceivedMs(): number | undefined {
    return this.#marked()?.cause?.receivedMs;
  }

  /**
   * Marks the Forwarding. The cause of one that is marked already is joined with this one.
   * `service`: its Service, as callers have it that mark many: a part of the key is a new string,
   * and has to be hashed.
   */
  mark(record: Tracked, cause: Cause | undefined, service = serviceOf(record.key)): void {
    const marked = this.#waiting.get(service);
    if (marked === undefined)
      this.#waiting.set(service, { service, record, cause, rest: undefined });
    else if (marked.record === record) marked.cause = joined(marked.cause, cause);
    else {
      marked.rest ??= new Map();
      marked.rest.set(record, joined(marked.rest.get(record), cause));
    }
  }

  has(record: Tracked): boolean {
    const marked = this.#waiting.get(serviceOf(record.key));
    return marked?.record === record || marked?.rest?.has(record) === true;
  }

  delete(record: Tracked): void {
    const marked = this.#waiting.get(serviceOf(record.key));
    if (marked === undefined) return;
    if (marked.record !== record) marked.rest?.delete(record);
    else if (!advance(marked)) this.#drop(marked);
  }

  /** The next one. */
  next(): Tracked | undefined {
    return this.#marked()?.record;
  }

  /** Removes the next one and returns why it changed. Its Service goes to the end. */
  take(): Cause | undefined {
    const marked = this.#marked();
    if (marked === undefined) return undefined;
    const { cause } = marked;
    this.#drop(marked);
    if (advance(marked)) this.#waiting.set(marked.service, marked);
    return cause;
  }

  /**
   * An iterator that is not moved keeps what its Map had when it was made: after a start, the
   * causes of all Services.
   */
  #startOver(): void {
    this.#walk = this.#waiting.values();
    this.#first = undefined;
  }

  /** Removes and returns all. */
  takeAll(): Causes {
    const all: Causes = new Map();
    for (const { cause, record, rest } of this.#waiting.values()) {
      all.set(record, cause);
      for (const [other, why] of rest ?? []) all.set(other, why);
    }
    this.#waiting.clear();
    this.#startOver();
    return all;
  }

  #drop(marked: Marked): void {
    this.#waiting.delete(marked.service);
    if (this.#waiting.size === 0) this.#startOver();
    else if (this.#first === marked) this.#first = undefined;
  }

  /** What is marked of the Service that is next. */
  #marked(): Marked | undefined {
    if (this.#waiting.size === 0) return undefined;
    this.#first ??= this.#walk.next().value;
    if (this.#first === undefined) {
      // It has come to the end, and would not see what was added since then.
      this.#startOver();
      this.#first = this.#walk.next().value;
    }
    return this.#first;
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

/** The `namespace/name` of a Forwarding's key `namespace/name[:port]/protocol`. */
function serviceOf(key: string): string {
  const port = key.indexOf(':');
  return key.slice(0, port < 0 ? key.lastIndexOf('/') : port);
}
