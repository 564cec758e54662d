/** The bytes of one object, or that it is too large. */
export type Framed = Buffer | 'oversized';

/** Bytes of one object from several chunks. */
export class Chunks {
  readonly #bytesMax: number;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#length;
  }

  add(part: Buffer): void {
    this.#length += part.length;
    if (this.#length > this.#bytesMax) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  /** The complete object, of which this is the last part, and usually the only one. */
  end(part: Buffer): Framed {
    if (this.#length === 0 && part.length <= this.#bytesMax) return part;
    this.add(part);
    return this.take();
  }

  take(): Framed {
    const whole = this.#length > this.#bytesMax ? 'oversized' : join(this.#parts);
    this.#parts = [];
    this.#length = 0;
    return whole;
  }
}

function join(parts: Buffer[]): Buffer {
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}
