import type { Kernel } from '../../kernel/kernel.ts';
import type { LateDeletions } from '../backend.ts';
import { binary } from '../elements.ts';
import type { Sockets } from './switchboard.ts';

/** What takes addresses off the link. */
interface Unbinding {
  unbind(key: Uint8Array): void;
}

/** Addresses that nobody wants, but that carry connections yet. */
export class LingeringAddresses implements LateDeletions<Unbinding> {
  readonly #sockets: Sockets;
  readonly #addresses = new Map<string, Uint8Array>();

  constructor(sockets: Sockets) {
    this.#sockets = sockets;
  }

  get isAny(): boolean {
    return this.#addresses.size > 0;
  }

  has(id: string): boolean {
    return this.#addresses.has(id);
  }

  /** Connections end in peace. Returns whether the address has to wait for any. */
  keep(key: Uint8Array): boolean {
    const isBusy = this.#sockets.isBusy(key);
    if (isBusy) this.#addresses.set(binary(key), key);
    return isBusy;
  }

  /** The address is wanted again. Returns whether it was still there. */
  revive(id: string): boolean {
    return this.#addresses.delete(id);
  }

  /** What is there is read again after a failure. */
  confirm(): void {}
  rollback(): void {}

  write(_kernel: Kernel, writer: Unbinding): string[] {
    const idle = [...this.#addresses].filter(([, key]) => !this.#sockets.isBusy(key));
    for (const [id, key] of idle) {
      this.#addresses.delete(id);
      writer.unbind(key);
    }
    return idle.map(([id]) => id);
  }
}
