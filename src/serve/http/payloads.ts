/**
 * Bodies of answers that clients have not read yet. Slow clients must not use more than some
 * megabytes: above that, the clients with the oldest answers are disconnected.
 */

interface Reader {
  destroy(): void;
}

/** One body, which several clients may share. */
export class Payload {
  readonly bytes: Uint8Array;
  readonly readers = new Set<Reader>();

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

export class Payloads {
  readonly #bytesMax: number;
  /** Oldest first. */
  readonly #unread = new Set<Payload>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** This client is sent the payload. */
  sending(payload: Payload, to: Reader): void {
    payload.readers.add(to);
    if (!this.#unread.has(payload)) {
      this.#unread.add(payload);
      this.#bytes += payload.bytes.length;
    }
    for (const oldest of this.#unread) {
      if (this.#bytes <= this.#bytesMax || oldest === payload) return;
      for (const reader of [...oldest.readers]) reader.destroy();
      this.#forget(oldest);
    }
  }

  /** The client has received it, or is gone. */
  done(payload: Payload, reader: Reader): void {
    payload.readers.delete(reader);
    if (payload.readers.size === 0) this.#forget(payload);
  }

  #forget(payload: Payload): void {
    if (this.#unread.delete(payload)) this.#bytes -= payload.bytes.length;
  }
}
