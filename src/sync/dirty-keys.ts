import { type Cause, type Causes, joined } from './cause.ts';

/** Most Services have one port: a Map for each would take as long as all else that is done here. */
interface One {
  readonly key: string;
  readonly cause: Cause | undefined;
}

/** What is marked of a Service, the next one first. */
type Marked = One | Causes;

/**
 * The Forwardings that changed since they were last planned. Services take turns, one Forwarding at
 * a time, so that a Service with thousands of ports does not hold up others.
 */
export class DirtyKeys {
  /** By Service, the next one first. */
  readonly #waiting = new Map<string, Marked>();
  /**
   * Goes through `#waiting` once, and so comes to each Service when it is next. A walk from the
   * front would pass what has been deleted there: for 44,000 Services that takes 0.2 s.
   */
  #walk = this.#waiting.keys();
  /** The Service that is next, once `#walk` has come to it. */
  #first: string | undefined;

  get any(): boolean {
    return this.#waiting.size > 0;
  }

  /** The number of Services with dirty Forwardings. */
  get services(): number {
    return this.#waiting.size;
  }

  /** `Clock.now` when the change came that is next; undefined = nothing from outside is next. */
  get nextReceivedMs(): number | undefined {
    const marked = this.#marked();
    const cause = marked instanceof Map ? marked.values().next().value : marked?.cause;
    return cause?.receivedMs;
  }

  /** Marks the key. The cause of a key that is marked already is joined with this one. */
  mark(key: string, cause: Cause | undefined): void {
    const service = serviceOf(key);
    const marked = this.#waiting.get(service);
    if (marked instanceof Map) marked.set(key, joined(marked.get(key), cause));
    else if (marked === undefined) this.#waiting.set(service, { key, cause });
    else if (marked.key === key) {
      this.#waiting.set(service, { key, cause: joined(marked.cause, cause) });
    } else {
      const several: Causes = new Map([[marked.key, marked.cause]]);
      this.#waiting.set(service, several.set(key, cause));
    }
  }

  delete(key: string): void {
    const service = serviceOf(key);
    const marked = this.#waiting.get(service);
    if (marked instanceof Map) marked.delete(key);
    const isLast = marked instanceof Map ? marked.size === 0 : marked?.key === key;
    if (isLast) this.#drop(service);
  }

  /** The next key. */
  next(): string | undefined {
    const marked = this.#marked();
    return marked instanceof Map ? marked.keys().next().value : marked?.key;
  }

  /** Removes the key and returns why it changed. Its Service goes to the end. */
  take(key: string): Cause | undefined {
    const service = serviceOf(key);
    const marked = this.#waiting.get(service);
    if (marked === undefined) return undefined;
    this.#drop(service);
    const isOne = !(marked instanceof Map);
    const cause = isOne ? causeIn(marked, key) : marked.get(key);
    const isLeft = isOne ? marked.key !== key : !marked.delete(key) || marked.size > 0;
    if (isLeft) this.#waiting.set(service, marked);
    return cause;
  }

  /**
   * An iterator that is not moved keeps what its Map had when it was made: after a start, the
   * causes of all Services.
   */
  #startOver(): void {
    this.#walk = this.#waiting.keys();
    this.#first = undefined;
  }

  /** Removes and returns all. */
  takeAll(): Causes {
    const all: Causes = new Map();
    for (const marked of this.#waiting.values()) {
      if (marked instanceof Map) for (const [key, cause] of marked) all.set(key, cause);
      else all.set(marked.key, marked.cause);
    }
    this.#waiting.clear();
    this.#startOver();
    return all;
  }

  #drop(service: string): void {
    this.#waiting.delete(service);
    if (this.#waiting.size === 0) this.#startOver();
    else if (this.#first === service) this.#first = undefined;
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
    return this.#waiting.get(this.#first!);
  }
}

function causeIn(marked: One, key: string): Cause | undefined {
  return marked.key === key ? marked.cause : undefined;
}

/** The `namespace/name` of a Forwarding's key `namespace/name[:port]/protocol`. */
function serviceOf(key: string): string {
  const port = key.indexOf(':');
  return key.slice(0, port < 0 ? key.lastIndexOf('/') : port);
}
