/** Counts who needs a shared object, and knows what a batch must add and delete for it. */
export class Counter<V> {
  readonly #counts = new Map<string, { readonly value: V; count: number }>();
  /** Count at the start of the batch, of each key that was counted up or down since. */
  readonly #before = new Map<string, { readonly value: V; readonly count: number }>();

  get size(): number {
    return this.#counts.size;
  }

  has(key: string): boolean {
    return this.#counts.has(key);
  }

  entries(): IterableIterator<[string, { readonly value: V; readonly count: number }]> {
    return this.#counts.entries();
  }

  claim(key: string, value: V): void {
    const known = this.#touch(key, value);
    if (known === undefined) this.#counts.set(key, { value, count: 1 });
    else known.count += 1;
  }

  /** A claim to what is in force already: `take` does not name it. */
  resume(key: string, value: V): void {
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { value, count: 1 });
    else known.count += 1;
  }

  release(key: string, value: V): void {
    const known = this.#touch(key, value);
    if (known === undefined) throw new Error('released an object that nobody had claimed');
    known.count -= 1;
    if (known.count === 0) this.#counts.delete(key);
  }

  /** Whether the next `take` will name the key. */
  changes(key: string): boolean {
    const before = this.#before.get(key);
    return before !== undefined && before.count > 0 !== this.has(key);
  }

  /** What came into use and what is no longer used since the last call. */
  take(): { needed: [string, V][]; unused: [string, V][] } {
    const needed: [string, V][] = [];
    const unused: [string, V][] = [];
    for (const [key, { value, count }] of this.#before) {
      const now = this.#counts.has(key);
      if (count === 0 && now) needed.push([key, value]);
      if (count > 0 && !now) unused.push([key, value]);
    }
    this.#before.clear();
    return { needed, unused };
  }

  clear(): void {
    this.#counts.clear();
    this.#before.clear();
  }

  #touch(key: string, value: V): { readonly value: V; count: number } | undefined {
    const known = this.#counts.get(key);
    if (!this.#before.has(key)) this.#before.set(key, { value, count: known?.count ?? 0 });
    return known;
  }
}
