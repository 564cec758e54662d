/** A map that can take back its changes since the last `confirm`. */
export class UndoMap<V, K = string> {
  readonly #values = new Map<K, V>();
  readonly #before = new Map<K, V | undefined>();

  get(key: K): V | undefined {
    return this.#values.get(key);
  }

  get size(): number {
    return this.#values.size;
  }

  entries(): [K, V][] {
    return [...this.#values];
  }

  put(key: K, value: V | undefined): void {
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
