import { Chunks, type Framed } from '../chunks.ts';
import { StreamError } from '../errors.ts';

const prefixBytes = 4;
/** No event is longer. A longer frame shows that the stream does not consist of frames. */
const frameBytesMax = 256 * 1024 * 1024;

/**
 * Splits a watch stream into frames: a length of four bytes, big-endian, followed by the event. An
 * event longer than `bytesMax` is not kept in memory.
 */
export class FrameCutter {
  readonly #chunks: Chunks;
  readonly #prefix = Buffer.alloc(prefixBytes);
  #prefixLength = 0;
  /** Bytes of the frame that have not arrived yet. */
  #missing = 0;

  constructor(bytesMax: number) {
    this.#chunks = new Chunks(bytesMax);
  }

  /** Takes a chunk, and returns the frames that end in it. Throws a StreamError on other data. */
  *push(chunk: Buffer): Generator<Framed> {
    let at = 0;
    while (at < chunk.length) {
      if (this.#missing === 0) {
        at = this.#readPrefix(chunk, at);
        continue;
      }
      const end = Math.min(chunk.length, at + this.#missing);
      this.#missing -= end - at;
      const part = chunk.subarray(at, end);
      at = end;
      if (this.#missing > 0) this.#chunks.add(part);
      else yield this.#chunks.end(part);
    }
  }

  /** The bytes of the incomplete frame. */
  get pendingBytes(): number {
    return this.#prefixLength + this.#missing;
  }

  /** The index after what was read. */
  #readPrefix(chunk: Buffer, from: number): number {
    if (this.#prefixLength === 0 && chunk.length - from >= prefixBytes) {
      this.#begin(chunk.readUInt32BE(from));
      return from + prefixBytes;
    }
    const copied = chunk.copy(this.#prefix, this.#prefixLength, from);
    this.#prefixLength += copied;
    if (this.#prefixLength === prefixBytes) {
      this.#prefixLength = 0;
      this.#begin(this.#prefix.readUInt32BE());
    }
    return from + copied;
  }

  #begin(length: number): void {
    if (length > frameBytesMax || length === 0) {
      throw new StreamError('garbage', `the server sent a frame of ${length} bytes`);
    }
    this.#missing = length;
  }
}
