import { type Cause, type Causes, joined } from './cause.ts';

/**
 * The Forwardings that changed since they were last planned. Services take turns, a Forwarding at
 * a time: one with thousands of ports does not hold up what comes after it.
 */
export class DirtyKeys {
  /** By Service; the one whose turn it is comes first. */
  readonly #waiting = new Map<string, Causes>();

  get any(): boolean {
    return this.#waiting.size > 0;
  }

  /** Services that have such a Forwarding. */
  get services(): number {
    return this.#waiting.size;
  }

  /** A change joins those that the key is marked for already. */
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

  /** The key whose turn it is. */
  next(): string | undefined {
    for (const marked of this.#waiting.values()) for (const key of marked.keys()) return key;
    return undefined;
  }

  /** Takes the key away and tells why it changed. The rest of its Service waits for its turn. */
  take(key: string): Cause | undefined {
    const service = serviceOf(key);
    const marked = this.#waiting.get(service);
    const cause = marked?.get(key);
    this.#waiting.delete(service);
    marked?.delete(key);
    if (marked !== undefined && marked.size > 0) this.#waiting.set(service, marked);
    return cause;
  }

  /** Takes away all that is marked. */
  takeAll(): Causes {
    const all: Causes = new Map();
    for (const marked of this.#waiting.values()) {
      for (const [key, cause] of marked) all.set(key, cause);
    }
    this.#waiting.clear();
    return all;
  }
}

/** Of a Forwarding's key `namespace/name[:port]/protocol`: what its Service's keys begin with. */
function serviceOf(key: string): string {
  const port = key.indexOf(':');
  return key.slice(0, port < 0 ? key.lastIndexOf('/') : port);
}
