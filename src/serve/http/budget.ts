/** Bounds the bytes that all connections use together. */
export class Budget {
  readonly max: number;
  #used = 0;

  constructor(max: number) {
    this.max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** Returns false, and changes nothing, if the budget does not suffice. */
  take(bytes: number): boolean {
    if (bytes > 0 && this.#used + bytes > this.max) return false;
    this.#used += bytes;
    return true;
  }
}
