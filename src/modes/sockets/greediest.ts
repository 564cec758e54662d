/**
 * Which connections to end where they hold too much: always one of the client that holds most; of
 * its connections the one that holds most, among those that do not move where there are any.
 */

interface Held<T> {
  readonly of: T;
  readonly bytes: number;
  readonly isMoving: boolean;
}

interface Client<T> {
  readonly held: Heap<Held<T>>;
  bytes: number;
  /** Its place in the heap of clients. */
  at: number;
}

/** Adding one and taking one need a number of steps that hardly grows with how many there are. */
export class Greediest<T> {
  readonly #byName = new Map<string, Client<T>>();
  readonly #clients: Heap<Client<T>> = new Heap<Client<T>>(
    (a, b) => a.bytes > b.bytes,
    (client, at) => {
      client.at = at;
    },
  );

  add(of: T, client: string, bytes: number, isMoving: boolean): void {
    let its = this.#byName.get(client);
    if (its === undefined) {
      its = { held: new Heap<Held<T>>(endsBefore), bytes: 0, at: 0 };
      this.#byName.set(client, its);
      this.#clients.push(its);
    }
    its.held.push({ of, bytes, isMoving });
    its.bytes += bytes;
    this.#clients.raise(its.at);
  }

  /** The next one to end; undefined = there is none. */
  take(): T | undefined {
    const greediest = this.#clients.first;
    const next = greediest?.held.pop();
    if (greediest === undefined || next === undefined) return undefined;
    greediest.bytes -= next.bytes;
    if (greediest.held.first === undefined) this.#clients.pop();
    else this.#clients.lowerFirst();
    return next.of;
  }
}

function endsBefore<T>(a: Held<T>, b: Held<T>): boolean {
  return a.isMoving === b.isMoving ? a.bytes > b.bytes : b.isMoving;
}

/** A binary heap. */
class Heap<T> {
  readonly #items: T[] = [];
  readonly #precedes: (a: T, b: T) => boolean;
  readonly #placed: (item: T, at: number) => void;

  /** `placed` gets each new place of an item. */
  constructor(precedes: (a: T, b: T) => boolean, placed: (item: T, at: number) => void = () => {}) {
    this.#precedes = precedes;
    this.#placed = placed;
  }

  get first(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    this.#put(item, this.#items.length);
    this.raise(this.#items.length - 1);
  }

  pop(): T | undefined {
    const [first] = this.#items;
    const last = this.#items.pop();
    if (this.#items.length > 0) {
      this.#put(last!, 0);
      this.lowerFirst();
    }
    return first;
  }

  /** The item at this place may precede more others than before. */
  raise(at: number): void {
    const item = this.#items[at]!;
    let place = at;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (!this.#precedes(item, this.#items[above]!)) break;
      this.#put(this.#items[above]!, place);
      place = above;
    }
    if (place !== at) this.#put(item, place);
  }

  /** The first item may precede fewer others than before. */
  lowerFirst(): void {
    const item = this.#items[0]!;
    let place = 0;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= this.#items.length) break;
      const [left, right] = [this.#items[below]!, this.#items[below + 1]];
      if (right !== undefined && this.#precedes(right, left)) below += 1;
      if (!this.#precedes(this.#items[below]!, item)) break;
      this.#put(this.#items[below]!, place);
      place = below;
    }
    this.#put(item, place);
  }

  #put(item: T, at: number): void {
    this.#items[at] = item;
    this.#placed(item, at);
  }
}
