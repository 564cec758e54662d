/**
 * Which connections to end where they hold too much: of the address that holds most, if it holds
 * much; otherwise one may own many addresses, and it is the block that holds most, and in it the
 * address that does. Of its connections the one that holds most ends, among those that do not move
 * where there are any.
 */
import { blocksOf } from '../../net/block.ts';

interface Held<T> {
  readonly of: T;
  readonly bytes: number;
  readonly isMoving: boolean;
}

/** All of an address. */
interface Client<T> {
  readonly held: Heap<Held<T>>;
  /** From the address to the widest block, as `blocksOf` has them. */
  readonly blocks: readonly Block<T>[];
  bytes: number;
}

interface Block<T> {
  readonly clients: Heap<Client<T>>;
  /** All blocks of its size. */
  readonly order: Heap<Block<T>>;
  bytes: number;
}

/** Adding one and taking one need a number of steps that hardly grows with how many there are. */
export class Greediest<T> {
  readonly #much: number;
  readonly #clients = new Map<string, Client<T>>();
  /** As `blocksOf` has them. */
  readonly #sizes = [new Blocks<T>(), new Blocks<T>(), new Blocks<T>()] as const;

  /** `much`: bytes. Where no smaller block has more, one of the widest is taken from. */
  constructor(much: number) {
    this.#much = much;
  }

  /** `bytes`: more than none. */
  add(of: T, address: string, bytes: number, isMoving: boolean): void {
    const client = this.#clients.get(address) ?? this.#newClient(address);
    client.held.push({ of, bytes, isMoving });
    client.bytes += bytes;
    for (const block of client.blocks) {
      block.bytes += bytes;
      block.clients.raise(client);
      block.order.raise(block);
    }
  }

  /** The next one to end; undefined = there is none. */
  take(): T | undefined {
    const client = this.#greediest();
    const next = client?.held.pop();
    if (client === undefined || next === undefined) return undefined;
    client.bytes -= next.bytes;
    for (const block of client.blocks) {
      block.bytes -= next.bytes;
      block.clients.lower(client);
      block.order.lower(block);
    }
    return next.of;
  }

  #greediest(): Client<T> | undefined {
    const most = this.#sizes.map(({ order }) => order.first);
    const block = most.find((one) => one !== undefined && one.bytes > this.#much) ?? most.at(-1);
    return block?.clients.first;
  }

  #newClient(address: string): Client<T> {
    const names = blocksOf(address);
    const blocks = this.#sizes.map((size, i) => size.get(names[i]!));
    const client: Client<T> = { held: new Heap<Held<T>>(endsBefore), blocks, bytes: 0 };
    for (const { clients } of blocks) clients.push(client);
    this.#clients.set(address, client);
    return client;
  }
}

/** Those of one size. */
class Blocks<T> {
  readonly #byName = new Map<string, Block<T>>();
  readonly order = new Heap<Block<T>>(holdsMore);

  get(name: string): Block<T> {
    const known = this.#byName.get(name);
    if (known !== undefined) return known;
    const { order } = this;
    const made: Block<T> = { clients: new Heap<Client<T>>(holdsMore), order, bytes: 0 };
    this.#byName.set(name, made);
    order.push(made);
    return made;
  }
}

function holdsMore(a: { readonly bytes: number }, b: { readonly bytes: number }): boolean {
  return a.bytes > b.bytes;
}

function endsBefore<T>(a: Held<T>, b: Held<T>): boolean {
  return a.isMoving === b.isMoving ? a.bytes > b.bytes : b.isMoving;
}

/** A binary heap. */
class Heap<T> {
  readonly #items: T[] = [];
  readonly #places = new Map<T, number>();
  readonly #precedes: (a: T, b: T) => boolean;

  constructor(precedes: (a: T, b: T) => boolean) {
    this.#precedes = precedes;
  }

  get first(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    this.#put(item, this.#items.length);
    this.raise(item);
  }

  pop(): T | undefined {
    const [first] = this.#items;
    const last = this.#items.pop();
    if (first !== undefined) this.#places.delete(first);
    if (last !== undefined && last !== first) {
      this.#put(last, 0);
      this.lower(last);
    }
    return first;
  }

  /** It may precede more others than before. */
  raise(item: T): void {
    const from = this.#places.get(item)!;
    let place = from;
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (!this.#precedes(item, this.#items[above]!)) break;
      this.#put(this.#items[above]!, place);
      place = above;
    }
    if (place !== from) this.#put(item, place);
  }

  /** It may precede fewer others than before. */
  lower(item: T): void {
    const from = this.#places.get(item)!;
    let place = from;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= this.#items.length) break;
      const [left, right] = [this.#items[below]!, this.#items[below + 1]];
      if (right !== undefined && this.#precedes(right, left)) below += 1;
      if (!this.#precedes(this.#items[below]!, item)) break;
      this.#put(this.#items[below]!, place);
      place = below;
    }
    if (place !== from) this.#put(item, place);
  }

  #put(item: T, at: number): void {
    this.#items[at] = item;
    this.#places.set(item, at);
  }
}
