import type { Kernel } from '../../kernel/kernel.ts';
import type { LateDeletions } from '../backend.ts';
import { binary } from '../elements.ts';
import type { Sockets } from '../sockets/switchboard.ts';

/** What deletes addresses from the link. */
interface Unbinding {
  unbind(key: Uint8Array): void;
}

/** Addresses that are not desired and still have connections. */
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

  /** Keeps the address until its connections have ended. Returns whether it has any. */
  keep(key: Uint8Array): boolean {
    const isBusy = this.#sockets.isBusy(key);
    if (isBusy) this.#addresses.set(binary(key), key);
    return isBusy;
  }

  /** The address is desired again. Returns whether it was kept. */
  revive(id: string): boolean {
    return this.#addresses.delete(id);
  }

  /** Nothing: after a failure the link is read again. */
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
