/** How many connections servers hold. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Connections of one or several servers, `max` at most. Anybody who reaches a port can open
 * connections and send nothing: these must not use up the file descriptors that netlink, the API
 * server and other probes need. When there are too many, the oldest is closed, because an honest
 * probe is over in milliseconds.
 */
export class Connections {
  readonly #max: number;
  /** The oldest first. */
  readonly #open = new Set<Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Limits the connections of this server too. */
  bound(server: Server): void {
    server.on('connection', (socket) => {
      this.#open.add(socket);
      socket.once('close', () => this.#open.delete(socket));
      if (this.#open.size <= this.#max) return;
      const [oldest] = this.#open;
      this.#open.delete(oldest!);
      oldest!.destroy();
    });
  }
}
