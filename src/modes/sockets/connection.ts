/** A TCP connection of a client, joined to one to an endpoint. */

import { connect, type Socket } from 'node:net';
import { formatAddress } from '../../net/address.ts';
import { addCount } from '../../net/counts.ts';
import type { EndpointKey, EndpointList } from '../../net/endpoint-list.ts';
import type { Watch } from './buffers.ts';
import type { Claim } from './descriptors.ts';

/** How long an endpoint may take to answer; then the next one is tried. */
const dialTimeoutsMs = [250, 500, 1000, 2000] as const;

/** A peer that vanished without a FIN is noticed after about ten of these. */
const keepAliveMs = 60_000;

export const socketOptions = {
  allowHalfOpen: true,
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: keepAliveMs,
  // In bytes. After a pause Node.js reads until it has these, in most cases one block. With less it
  // pauses for each of many small blocks.
  highWaterMark: 16_384,
} as const;

/** How many connections are ended in one turn of the event loop. */
const resetsPerTurn = 256;

/** An endpoint to try; undefined = there is none. */
export interface Endpoint {
  readonly pool: EndpointList;
  readonly index: number;
}

/**
 * Whether a connection of the client to this endpoint could go round without end. It is not made.
 * (Rules of the kernel translate only once, too.)
 */
export type LeadsBack = (endpoint: Endpoint, client: string) => boolean;

interface Carrying {
  /** Chooses for each attempt; `attempt` counts from 0. */
  readonly choose: (attempt: number) => Endpoint | undefined;
  readonly leadsBack: (endpoint: Endpoint) => boolean;
  readonly connections: Connections;
  /** Two descriptors, which are given back when the client and the last server are closed. */
  readonly claim: Claim;
  readonly watch: Watch;
  /** The client is joined to this endpoint. */
  readonly joined: (endpoint: Endpoint) => void;
}

/** Sockets of connections, and how many clients are connected to each address. */
export class Connections {
  readonly #sockets = new Set<Socket>();
  readonly #clients = new Map<string, number>();
  /** Clients whose connections may be ended, by Forwarding and endpoint. */
  readonly #endable = new Map<string, Map<EndpointKey, Set<Socket>>>();

  isAnyTo(address: string): boolean {
    return this.#clients.has(address);
  }

  /** Counts the socket of a client until it is closed. */
  addClient(socket: Socket): void {
    const { localAddress = '' } = socket;
    this.add(socket);
    addCount(this.#clients, localAddress);
    socket.once('close', () => addCount(this.#clients, localAddress, -1));
  }

  add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // `join` handles what an error means for the other side.
    socket.on('error', () => {});
  }

  /** The connection of this client is ended when its endpoint has gone. */
  addEndable(forwarding: string, endpoint: EndpointKey, client: Socket): void {
    const all = this.#endable.get(forwarding) ?? new Map<EndpointKey, Set<Socket>>();
    const clients = all.get(endpoint) ?? new Set();
    this.#endable.set(forwarding, all.set(endpoint, clients.add(client)));
    client.once('close', () => {
      clients.delete(client);
      if (clients.size > 0 || all.get(endpoint) !== clients) return;
      all.delete(endpoint);
      if (all.size === 0 && this.#endable.get(forwarding) === all) this.#endable.delete(forwarding);
    });
  }

  /** Resets clients of the Forwarding whose endpoints these are, some in each turn. */
  endTo(forwarding: string, endpoints: ReadonlySet<EndpointKey>): void {
    const all = this.#endable.get(forwarding);
    if (all === undefined) return;
    const clients = [...endpoints].flatMap((endpoint) => [...(all.get(endpoint) ?? [])]);
    const resetSome = (from: number): void => {
      const to = from + resetsPerTurn;
      for (const client of clients.slice(from, to)) client.resetAndDestroy();
      if (to < clients.length) setImmediate(resetSome, to);
    };
    resetSome(0);
  }

  endAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }
}

/** Finds an endpoint that answers, and joins it to the client; without one the client is reset. */
export function carry(client: Socket, carrying: Carrying): void {
  const { choose, leadsBack, connections, claim, watch, joined } = carrying;
  client.once('close', () => claim.giveBack());
  // A reset is noticed by reading only. Node.js stops when it has `highWaterMark` bytes or more.
  client.read(0);
  const attempt = (count: number): void => {
    if (client.destroyed) {
      claim.giveBack();
      return;
    }
    const timeoutMs = dialTimeoutsMs[count];
    const endpoint = timeoutMs === undefined ? undefined : choose(count);
    if (endpoint === undefined || timeoutMs === undefined) {
      client.resetAndDestroy();
      claim.giveBack();
      return;
    }
    if (leadsBack(endpoint)) {
      attempt(count + 1);
      return;
    }
    const server = dial(endpoint);
    connections.add(server);
    // Where the event loop was late, an answer may be there that was not read yet.
    const timer = setTimeout(() => {
      setImmediate(() => {
        if (server.connecting) server.destroy();
      });
    }, timeoutMs);
    timer.unref();
    const clientGone = (): void => void server.destroy();
    client.once('close', clientGone);
    const failed = (): void => {
      clearTimeout(timer);
      client.off('close', clientGone);
      attempt(count + 1);
    };
    server.once('close', failed);
    server.once('connect', () => {
      clearTimeout(timer);
      client.off('close', clientGone);
      server.off('close', failed);
      server.once('close', () => claim.giveBack());
      joined(endpoint);
      if (client.destroyed) {
        server.resetAndDestroy();
        return;
      }
      watch.add(server);
      join(client, server, watch);
    });
  };
  attempt(0);
}

/** Resets the client when the time is over. */
export function endAfter(client: Socket, ms: number): void {
  const timer = setTimeout(() => client.resetAndDestroy(), ms).unref();
  client.once('close', () => clearTimeout(timer));
}

function dial({ pool, index }: Endpoint): Socket {
  const to = { host: formatAddress(pool.address(index)), port: pool.port(index) };
  return connect({ ...socketOptions, ...to });
}

/** Passes on the end of each direction. An error on one side resets the other. */
function join(client: Socket, server: Socket, watch: Watch): void {
  for (const [from, to] of [
    [client, server],
    [server, client],
  ] as const) {
    let isWaiting = false;
    const taken = (): void => {
      if (!isWaiting || to.writableLength > 0) return;
      isWaiting = false;
      from.resume();
    };
    from.on('data', (bytes) => {
      watch.moved(bytes.length);
      // There is no 'drain' after less than `highWaterMark`.
      to.write(bytes, taken);
      // The kernel has not taken all. No more is read until it has.
      if (to.writableLength === 0) return;
      isWaiting = true;
      from.pause();
    });
    // A client may have ended without a byte before its endpoint answered.
    if (from.readableEnded) to.end();
    else from.once('end', () => to.end());
    from.once('error', () => to.resetAndDestroy());
    from.once('close', () => {
      if (!from.readableEnded) to.destroy();
    });
    from.resume();
  }
}
