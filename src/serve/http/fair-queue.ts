/** Waiting items by peer: peers take turns, regardless of how many items each has. */
export class FairQueue<T> {
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

  remove(peer: string, item: T): void {
    const items = this.#waiting.get(peer);
    const at = items?.indexOf(item) ?? -1;
    if (items === undefined || at < 0) return;
    items.splice(at, 1);
    if (items.length === 0) this.#waiting.delete(peer);
    this.#size -= 1;
  }
}
