import { type Cause, type Causes, joined } from './cause.ts';

/**
 * The Forwardings that changed since they were last planned. Services take turns, one Forwarding at
 * a time, so that a Service with thousands of ports does not hold up others.
 */
export class DirtyKeys {
  /** By Service, the next one first. */
  readonly #waiting = new Map<string, Causes>();

  get any(): boolean {
    return this.#waiting.size > 0;
  }

  /** The number of Services with dirty Forwardings. */
  get services(): number {
    return this.#waiting.size;
  }

  /** `Clock.now` when the change came that is next; undefined = nothing from outside is next. */
  get nextReceivedMs(): number | undefined {
    for (const marked of this.#waiting.values()) {
      for (const cause of marked.values()) return cause?.receivedMs;
    }
    return undefined;
  }

  /** Marks the key. The cause of a key that is marked already is joined with this one. */
  mark(key: string, cause: Cause | undefined): void {
    const service = serviceOf(key);
    const marked = this.#waiting.get(service);
    if (marked === undefined) this.#waiting.set(service, new Map([[key, cause]]));
    else marked.set(key, joined(marked.get(key), cause));
  }

  delete(key: string): void {
    const service = serviceOf(key);
    const marked = this.#waiting.get(service);
    marked?.delete(key);
    if (marked?.size === 0) this.#waiting.delete(service);
  }

  /** The next key. */
  next(): string | undefined {
    for (const marked of this.#waiting.values()) for (const key of marked.keys()) return key;
    return undefined;
  }

  /** Removes the key and returns why it changed. Its Service goes to the end. */
  take(key: string): Cause | undefined {
    const service = serviceOf(key);
    const marked = this.#waiting.get(service);
    const cause = marked?.get(key);
    this.#waiting.delete(service);
    marked?.delete(key);
    if (marked !== undefined && marked.size > 0) this.#waiting.set(service, marked);
    return cause;
  }

  /** Removes and returns all. */
  takeAll(): Causes {
    const all: Causes = new Map();
    for (const marked of this.#waiting.values()) {
      for (const [key, cause] of marked) all.set(key, cause);
    }
    this.#waiting.clear();
    return all;
  }
}

/** The `namespace/name` of a Forwarding's key `namespace/name[:port]/protocol`. */
function serviceOf(key: string): string {
  const port = key.indexOf(':');
  return key.slice(0, port < 0 ? key.lastIndexOf('/') : port);
}
