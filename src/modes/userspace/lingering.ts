import { binary } from '../elements.ts';
import type { Sockets } from '../sockets/switchboard.ts';

/** Addresses that are not desired and still have connections. */
export class LingeringAddresses {
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

  /** Forgets those without connections, and returns them. */
  takeIdle(): readonly (readonly [id: string, key: Uint8Array])[] {
    const idle = [...this.#addresses].filter(([, key]) => !this.#sockets.isBusy(key));
    for (const [id] of idle) this.#addresses.delete(id);
    return idle;
  }
}
