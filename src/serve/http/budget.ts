/** Bytes that connections may hold together. */
export class Budget {
  readonly max: number;
  #used = 0;

  constructor(max: number) {
    this.max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** Returns false, and changes nothing, when there is not so much left. */
  take(bytes: number): boolean {
    if (bytes > 0 && this.#used + bytes > this.max) return false;
    this.#used += bytes;
    return true;
  }
}
