/** The bytes of one object, or that it is too large. */
export type Framed = Buffer | 'oversized';

/**
 * The most parts that are kept separately. Each takes 110 bytes, and keeps the chunk that it is a
 * view of, up to 64 KiB.
 */
const separateMax = 256;

/** Bytes of one object from several chunks. They take the same memory in any number of chunks. */
export class Chunks {
  readonly #bytesMax: number;
  /** Each of `separateMax` parts. */
  #joined: Buffer[] = [];
  #parts: Buffer[] = [];
  #length = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#length;
  }

  get isOversized(): boolean {
    return this.#length > this.#bytesMax;
  }

  add(part: Buffer): void {
    this.#length += part.length;
    if (this.isOversized) this.#forget();
    else if (part.length > 0) this.#parts.push(part);
    if (this.#parts.length < separateMax) return;
    this.#joined.push(Buffer.concat(this.#parts));
    this.#parts = [];
  }

  /** The complete object, of which this is the last part, and usually the only one. */
  end(part: Buffer): Framed {
    if (this.#length === 0 && part.length <= this.#bytesMax) return part;
    this.add(part);
    return this.take();
  }

  take(): Framed {
    const parts = [...this.#joined, ...this.#parts];
    const whole = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    const taken = this.isOversized ? 'oversized' : whole;
    this.#forget();
    this.#length = 0;
    return taken;
  }

  #forget(): void {
    this.#joined = [];
    this.#parts = [];
  }
}
