import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { formatAddress } from '../../state/address.ts';
import { Balancer } from './balancer.ts';
import { type Connections, carry, type Endpoint, type IsOwn, keepAliveMs } from './connection.ts';
import type { ServedFrontend } from './frontends.ts';
import type { Listener } from './switchboard.ts';

/** As many as the kernel allows (net.core.somaxconn). */
const backlog = 65_535;

/** Accepts the connections to one frontend. Those that it has accepted outlive it. */
export class TCPListener implements Listener {
  #frontend: ServedFrontend;
  readonly #connections: Connections;
  readonly #isOwn: IsOwn;
  readonly #balancer = new Balancer();
  readonly #server: Server;

  private constructor(frontend: ServedFrontend, connections: Connections, isOwn: IsOwn) {
    this.#frontend = frontend;
    this.#connections = connections;
    this.#isOwn = isOwn;
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs };
    this.#server = createServer({ ...options, allowHalfOpen: true, pauseOnConnect: true });
    this.#server.on('connection', (client) => this.#accept(client));
  }

  /** Rejects with the error of the system call. */
  static async open(
    frontend: ServedFrontend,
    connections: Connections,
    isOwn: IsOwn,
  ): Promise<TCPListener> {
    const listener = new TCPListener(frontend, connections, isOwn);
    const server = listener.#server;
    const host = formatAddress(frontend.address.bytes);
    server.listen({ host, port: frontend.port, backlog, exclusive: true });
    await once(server, 'listening');
    // A connection that could not be accepted, for want of a file descriptor, is no end.
    server.on('error', () => {});
    return listener;
  }

  get frontend(): ServedFrontend {
    return this.#frontend;
  }

  update(next: ServedFrontend): void {
    this.#frontend = next;
    this.#balancer.retain(next);
  }

  close(): void {
    this.#server.close();
  }

  #accept(client: Socket): void {
    this.#connections.addClient(client);
    const { remoteAddress = '' } = client;
    const choose = (attempt: number): Endpoint | undefined => {
      if (attempt > 0) this.#balancer.forget(remoteAddress);
      return this.#balancer.choose(this.#frontend, remoteAddress);
    };
    carry(client, { choose, isOwn: this.#isOwn, connections: this.#connections });
  }
}
