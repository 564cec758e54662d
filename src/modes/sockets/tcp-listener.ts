import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { formatAddress } from '../../net/address.ts';
import type { Balancer } from './balancer.ts';
import { type Connections, carry, type Endpoint, type IsOwn, keepAliveMs } from './connection.ts';
import type { ServedFrontend } from './frontends.ts';
import type { Listener } from './listener.ts';

/** As many as the kernel allows (net.core.somaxconn). */
const backlog = 65_535;

/** Accepts connections to one frontend. They go on when it is closed. */
export class TCPListener implements Listener {
  readonly #connections: Connections;
  readonly #isOwn: IsOwn;
  readonly #balancer: Balancer;
  readonly #server: Server;

  private constructor(balancer: Balancer, connections: Connections, isOwn: IsOwn) {
    this.#balancer = balancer;
    this.#connections = connections;
    this.#isOwn = isOwn;
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs };
    this.#server = createServer({ ...options, allowHalfOpen: true, pauseOnConnect: true });
    this.#server.on('connection', (client) => this.#accept(client));
  }

  /** Rejects with the error of the system call. */
  static async open(
    balancer: Balancer,
    connections: Connections,
    isOwn: IsOwn,
  ): Promise<TCPListener> {
    const listener = new TCPListener(balancer, connections, isOwn);
    const { frontend } = listener;
    const server = listener.#server;
    const host = formatAddress(frontend.address.bytes);
    server.listen({ host, port: frontend.port, backlog, exclusive: true });
    await once(server, 'listening');
    // A connection could not be accepted, for lack of file descriptors. The listener goes on.
    server.on('error', () => {});
    return listener;
  }

  get frontend(): ServedFrontend {
    return this.#balancer.frontend;
  }

  update(next: ServedFrontend): void {
    this.#balancer.update(next);
  }

  close(): void {
    this.#balancer.close();
    this.#server.close();
  }

  #accept(client: Socket): void {
    this.#connections.addClient(client);
    const { remoteAddress = '' } = client;
    const balancer = this.#balancer;
    const choose = (attempt: number): Endpoint | undefined =>
      attempt === 0 ? balancer.first(remoteAddress) : balancer.another(remoteAddress);
    const joined = (endpoint: Endpoint): void => balancer.joined(endpoint);
    carry(client, { choose, isOwn: this.#isOwn, connections: this.#connections, joined });
  }
}
