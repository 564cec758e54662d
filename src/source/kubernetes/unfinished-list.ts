import type { ListMethod } from '../source.ts';
import type { ObjectDelivery } from './delivery.ts';

/** A list that is being read. Nothing is deleted before it is complete. */
export class UnfinishedList {
  readonly method: ListMethod;
  readonly #delivery: ObjectDelivery;
  readonly #startedAtMs = performance.now();
  /** When it last delivered a new object. */
  #progressAtMs = this.#startedAtMs;
  /** The keys in the list; undefined if nothing was delivered before this list. */
  #keys: Set<string> | undefined;
  #readable = true;

  constructor(method: ListMethod, delivery: ObjectDelivery) {
    this.method = method;
    this.#delivery = delivery;
    this.restart();
  }

  *put(raw: unknown): Generator<undefined, void> {
    const deliver = yield* this.#delivery.decode(raw);
    const before = this.#size;
    const key = deliver();
    const isKept = key !== undefined && this.#delivery.has(key);
    if (key === undefined) this.#readable = false;
    if (isKept) this.#keys?.add(key);
    // The name of one that is left out is not kept, either.
    const isLeftOut = key !== undefined && !isKept;
    if (isLeftOut || this.#size > before) this.#progressAtMs = performance.now();
  }

  remove(key: string): void {
    this.#keys?.delete(key);
    this.#delivery.remove(key);
  }

  /** One of its objects could not be read: an object that is not in `keys` may exist. */
  unreadable(): void {
    this.#readable = false;
  }

  /** The list starts again. */
  restart(): void {
    this.#keys = this.#delivery.size === 0 ? undefined : new Set();
    this.#readable = true;
  }

  /** The list is complete: deletes objects that it does not contain, if all of it could be read. */
  complete(): void {
    if (this.#keys !== undefined && this.#readable) this.#delivery.retain(this.#keys);
  }

  /** Whether it has delivered nothing new for `idleMs`, or takes longer than `maxMs`. */
  isStuck(idleMs: number, maxMs: number): boolean {
    const nowMs = performance.now();
    return nowMs - this.#progressAtMs > idleMs || nowMs - this.#startedAtMs > maxMs;
  }

  get #size(): number {
    return this.#keys?.size ?? this.#delivery.size;
  }
}
