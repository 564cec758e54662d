/**
 * How many bytes of datagrams may wait in this process until the kernel takes them. libuv keeps
 * without a bound what a socket does not take immediately. More are dropped, as the kernel does.
 */
import { type Bound, type Shares, sharesOf, Taken } from './bounds.ts';
import type { ServedFrontend } from './frontends.ts';

/** A part of the memory that this process may use, and what is enough on large machines. */
const memoryPart = 1 / 128;
const bytesMax = 64 * 1024 ** 2;

/** What the process keeps of each in addition to its content. */
const bytesOfEach = 1024;

/** The datagrams of one client's socket, in both directions. */
export interface SendQueue {
  /** Calls `send` for a datagram of this size, unless it is dropped. `sent`: the kernel has it. */
  send(bytes: number, send: (sent: () => void) => void): void;
  /** Nothing waits any more. */
  close(): void;
}

export class Datagrams {
  readonly #taken: Taken;

  /** `memory`: bytes that the process may use. */
  constructor(memory: number) {
    this.#taken = new Taken(sharesOf(Math.min(Math.floor(memory * memoryPart), bytesMax)));
  }

  get max(): Shares {
    return this.#taken.max;
  }

  /** Bytes that wait. */
  get used(): number {
    return this.#taken.all;
  }

  get dropped(): Readonly<Record<Bound, number>> {
    return this.#taken.refused;
  }

  queue(of: { readonly frontend: ServedFrontend; readonly client: string }): SendQueue {
    let waiting = 0;
    let isClosed = false;
    return {
      send: (bytes, send) => {
        const size = bytes + bytesOfEach;
        if (isClosed || this.#taken.take(of, size) !== undefined) return;
        waiting += size;
        send(() => {
          if (isClosed) return;
          waiting -= size;
          this.#taken.giveBack(of, size);
        });
      },
      close: () => {
        if (isClosed) return;
        isClosed = true;
        this.#taken.giveBack(of, waiting);
      },
    };
  }
}
