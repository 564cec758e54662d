/** A map that can take back its changes that are not confirmed. */
export class UndoMap<V, K = string> {
  readonly #values = new Map<K, V>();
  /** Values before the changes of the batch that was taken, and before later ones. */
  readonly #beforeTaken = new Map<K, V | undefined>();
  readonly #before = new Map<K, V | undefined>();

  /** Whether `rollback` would change anything. */
  get isChanged(): boolean {
    return this.#before.size + this.#beforeTaken.size > 0;
  }

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

  /** A batch has the changes so far. */
  take(): void {
    for (const [key, value] of this.#before) {
      if (!this.#beforeTaken.has(key)) this.#beforeTaken.set(key, value);
    }
    this.#before.clear();
  }

  /** Those of the batch are in force. */
  confirmTaken(): void {
    this.#beforeTaken.clear();
  }

  /** All are final. */
  confirm(): void {
    this.take();
    this.confirmTaken();
  }

  rollback(): void {
    this.take();
    for (const [key, value] of this.#beforeTaken) {
      if (value === undefined) this.#values.delete(key);
      else this.#values.set(key, value);
    }
    this.confirmTaken();
  }
}
