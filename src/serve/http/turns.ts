/** Distributes work at a bounded rate, with peers taking turns. */

interface TurnsOptions<T> {
  /** The most items in one turn of the event loop. */
  readonly perTurn: number;
  /** The most items per second; a tenth of it may come in one burst. */
  readonly perSecond: number;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Whether another item may be taken. Calls `wake` when that changes. */
  readonly isReady?: () => boolean;
  readonly take: (item: T) => void;
}

export class Turns<T> {
  readonly #options: TurnsOptions<T>;
  readonly #queue = new FairQueue<T>();
  readonly #creditMax: number;
  #credit: number;
  #creditAtMs: number;
  #cancel: (() => void) | undefined;

  constructor(options: TurnsOptions<T>) {
    this.#options = options;
    this.#creditMax = Math.max(1, options.perSecond / 10);
    this.#credit = this.#creditMax;
    this.#creditAtMs = options.now();
  }

  get waiting(): number {
    return this.#queue.size;
  }

  add(peer: string, item: T): void {
    this.#queue.add(peer, item);
    this.wake();
  }

  /** Removes the first item of the peer for which `isIt` is true, if there is one. */
  remove(peer: string, isIt: (item: T) => boolean): void {
    this.#queue.remove(peer, isIt);
  }

  wake(): void {
    if (this.#cancel !== undefined || this.#queue.size === 0 || !this.#isReady) return;
    this.#refill();
    if (this.#credit >= 1) {
      const next = setImmediate(() => this.#turn());
      this.#cancel = () => clearImmediate(next);
      return;
    }
    const waitMs = ((1 - this.#credit) * 1000) / this.#options.perSecond;
    const timer = setTimeout(() => this.#turn(), Math.ceil(waitMs));
    this.#cancel = () => clearTimeout(timer);
  }

  close(): void {
    this.#cancel?.();
  }

  get #isReady(): boolean {
    return this.#options.isReady?.() ?? true;
  }

  #refill(): void {
    const { now, perSecond } = this.#options;
    const nowMs = now();
    const earned = ((nowMs - this.#creditAtMs) * perSecond) / 1000;
    this.#credit = Math.min(this.#creditMax, this.#credit + earned);
    this.#creditAtMs = nowMs;
  }

  #turn(): void {
    this.#cancel = undefined;
    this.#refill();
    const { perTurn, take } = this.#options;
    for (let taken = 0; taken < perTurn && this.#credit >= 1 && this.#isReady; taken += 1) {
      const item = this.#queue.next();
      if (item === undefined) break;
      this.#credit -= 1;
      take(item);
    }
    this.wake();
  }
}

/** Waiting items by peer: peers take turns, regardless of how many items each has. */
class FairQueue<T> {
  /** The peer whose turn is next is first. */
  readonly #waiting = new Map<string, T[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(peer: string, item: T): void {
    const items = this.#waiting.get(peer);
    if (items === undefined) this.#waiting.set(peer, [item]);
    else items.push(item);
    this.#size += 1;
  }

  /** The first item of the peer whose turn it is. */
  next(): T | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    const [peer, items] = first;
    const item = items.shift();
    this.#waiting.delete(peer);
    if (items.length > 0) this.#waiting.set(peer, items);
    this.#size -= 1;
    return item;
  }

  remove(peer: string, isIt: (item: T) => boolean): void {
    const items = this.#waiting.get(peer);
    const at = items?.findIndex(isIt) ?? -1;
    if (items === undefined || at < 0) return;
    items.splice(at, 1);
    if (items.length === 0) this.#waiting.delete(peer);
    this.#size -= 1;
  }
}
