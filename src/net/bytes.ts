/** Whether two byte strings are the same; undefined equals only itself. */
export function sameBytes(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i += 1) if (a[i] !== b[i]) return false;
  return true;
}

/** Bytes of one length each, one behind the other: many small arrays would cost far more. */
export class PackedBytes {
  readonly #stride: number;
  #bytes = new Uint8Array(0);
  #count = 0;

  constructor(stride: number) {
    this.#stride = stride;
  }

  push(bytes: Uint8Array): void {
    const at = this.extend();
    this.#bytes.set(bytes, at);
  }

  /** Makes room for one more, of zeroes. Returns where it begins in `buffer`. */
  extend(): number {
    const at = this.#count * this.#stride;
    if (at + this.#stride > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(16 * this.#stride, 2 * this.#bytes.length));
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    this.#count += 1;
    return at;
  }

  /** Holds them, until the next `extend`. */
  get buffer(): Uint8Array {
    return this.#bytes;
  }

  /** All of them: a view, which later ones may not reach. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#count * this.#stride);
  }
}
