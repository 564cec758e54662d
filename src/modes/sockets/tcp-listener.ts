import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { formatAddress } from '../../net/address.ts';
import { ageLimitMs } from '../../state/endings.ts';
import type { Balancer } from './balancer.ts';
import type { Buffers } from './buffers.ts';
import {
  type Connections,
  carry,
  type Endpoint,
  endAfter,
  type LeadsBack,
  socketOptions,
} from './connection.ts';
import type { Descriptors } from './descriptors.ts';
import type { Listener, ServedFrontend } from './frontends.ts';

/** As many as the kernel allows (net.core.somaxconn). */
const backlog = 65_535;

interface Shared {
  readonly buffers: Buffers;
  readonly connections: Connections;
  readonly descriptors: Descriptors;
  readonly leadsBack: LeadsBack;
}

/** Accepts connections to one frontend. They continue when it is closed. */
export class TCPListener implements Listener {
  readonly #shared: Shared;
  readonly #balancer: Balancer;
  readonly #server: Server;

  private constructor(balancer: Balancer, shared: Shared) {
    this.#balancer = balancer;
    this.#shared = shared;
    this.#server = createServer({ ...socketOptions, pauseOnConnect: true });
    this.#server.on('connection', (client) => this.#accept(client));
  }

  /** Rejects with the error of the system call. */
  static async open(balancer: Balancer, shared: Shared): Promise<TCPListener> {
    const listener = new TCPListener(balancer, shared);
    const { frontend } = listener;
    const server = listener.#server;
    const host = formatAddress(frontend.address.bytes);
    server.listen({ host, port: frontend.port, backlog, exclusive: true });
    await once(server, 'listening');
    // A connection could not be accepted, for lack of file descriptors. The listener continues.
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
    const { remoteAddress = '' } = client;
    const balancer = this.#balancer;
    const { buffers, connections, descriptors, leadsBack } = this.#shared;
    const { frontend } = balancer;
    const end = (): void => void client.resetAndDestroy();
    const claim = descriptors.take({ frontend, client: remoteAddress, count: 2, end });
    if (claim === undefined) {
      client.on('error', () => {});
      client.resetAndDestroy();
      return;
    }
    connections.addClient(client);
    const watch = buffers.watch({ frontend, client: remoteAddress });
    watch.add(client);
    const tried: Endpoint[] = [];
    const choose = (attempt: number): Endpoint | undefined => {
      const endpoint =
        attempt === 0 ? balancer.first(remoteAddress) : balancer.another(remoteAddress, tried);
      if (endpoint !== undefined) tried.push(endpoint);
      return endpoint;
    };
    const joined = (endpoint: Endpoint): void => {
      balancer.joined(endpoint);
      const { affinity, isEnding, maxAgeMs } = balancer.frontend;
      const { index, pool } = endpoint;
      if (isEnding) connections.addEndable(affinity.id, pool.key(index), client);
      if (maxAgeMs !== undefined) endAfter(client, ageLimitMs(maxAgeMs, Math.random()));
    };
    carry(client, {
      choose,
      leadsBack: (endpoint) => leadsBack(endpoint, remoteAddress),
      connections,
      claim,
      watch,
      joined,
    });
  }
}
