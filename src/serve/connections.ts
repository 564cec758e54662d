/** How many connections servers hold. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Connections of one or several servers, `max` at most. Anybody who reaches a port may open
 * connections to it and say nothing: they must not take the file descriptors that netlink, the API
 * server and others' probes need. Who comes when all are taken is served; who has been there
 * longest has to go, since an honest probe is over in milliseconds.
 */
export class Connections {
  readonly #max: number;
  /** In the order of their coming. */
  readonly #open = new Set<Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Counts the connections of this server, too. */
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
