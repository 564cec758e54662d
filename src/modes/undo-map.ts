/** A map whose changes since the last `confirm` can be taken back. */
export class UndoMap<V> {
  readonly #values = new Map<string, V>();
  readonly #before = new Map<string, V | undefined>();

  get(key: string): V | undefined {
    return this.#values.get(key);
  }

  get size(): number {
    return this.#values.size;
  }

  entries(): [string, V][] {
    return [...this.#values];
  }

  put(key: string, value: V | undefined): void {
    if (!this.#before.has(key)) this.#before.set(key, this.#values.get(key));
    if (value === undefined) this.#values.delete(key);
    else this.#values.set(key, value);
  }

  confirm(): void {
    this.#before.clear();
  }

  rollback(): void {
    for (const [key, value] of this.#before) {
      if (value === undefined) this.#values.delete(key);
      else this.#values.set(key, value);
    }
    this.#before.clear();
  }
}
