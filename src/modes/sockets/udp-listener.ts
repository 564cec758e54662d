import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { type Address, formatAddress, parseAddress } from '../../net/address.ts';
import { type EndpointKey, endpointKeys } from '../../net/endpoint-list.ts';
import type { Balancer } from './balancer.ts';
import type { Endpoint, LeadsBack } from './connection.ts';
import type { SendQueue } from './datagrams.ts';
import type { Descriptors } from './descriptors.ts';
import type { Listener, ServedFrontend } from './frontends.ts';

interface Shared {
  readonly descriptors: Descriptors;
  readonly leadsBack: LeadsBack;
  /** Whether a socket of ours has this address and port. */
  readonly listens: (address: Address | undefined, port: number) => boolean;
}

/** Receives datagrams to one frontend. Its flows end with it. */
export class UDPListener implements Listener {
  readonly #shared: Shared;
  readonly #balancer: Balancer;
  readonly #socket: Socket;
  /** By address and port of the client. */
  readonly #flows = new Map<string, UDPFlow>();

  private constructor(balancer: Balancer, shared: Shared) {
    this.#balancer = balancer;
    this.#shared = shared;
    this.#socket = newSocket(balancer.frontend);
    this.#socket.on('message', (message, from) => this.#take(message, from));
  }

  /** Rejects with the error of the system call. */
  static async open(balancer: Balancer, shared: Shared): Promise<UDPListener> {
    const listener = new UDPListener(balancer, shared);
    const { frontend } = balancer;
    const socket = listener.#socket;
    const address = formatAddress(frontend.address.bytes);
    socket.bind({ address, port: frontend.port, exclusive: true });
    try {
      await once(socket, 'listening');
    } catch (error) {
      socket.close();
      throw error;
    }
    // An answer that could not be sent is lost.
    socket.on('error', () => {});
    return listener;
  }

  get frontend(): ServedFrontend {
    return this.#balancer.frontend;
  }

  update(next: ServedFrontend): void {
    this.#balancer.update(next);
    if (this.#flows.size === 0) return;
    const right = endpointKeys(...next.right);
    for (const flow of this.#flows.values()) if (!right.has(flow.endpoint)) flow.end();
  }

  close(): void {
    this.#balancer.close();
    for (const flow of this.#flows.values()) flow.end();
    this.#socket.close();
  }

  #take(message: Buffer, from: RemoteInfo): void {
    const id = `${from.address} ${from.port}`;
    const flow = this.#flows.get(id) ?? this.#begin(id, from);
    flow?.send(message);
  }

  #begin(id: string, { address, port }: RemoteInfo): UDPFlow | undefined {
    const { frontend } = this;
    const { descriptors, leadsBack, listens } = this.#shared;
    // The source is forged: each answer would come back as a datagram of a client, without end.
    if (listens(parseAddress(address), port)) return undefined;
    const endpoint = this.#balancer.first(address);
    if (endpoint === undefined || leadsBack(endpoint, address)) return undefined;
    let flow: UDPFlow | undefined;
    const end = (): void => flow?.end();
    const claim = descriptors.take({ frontend, client: address, count: 1, end });
    if (claim === undefined) return undefined;
    this.#balancer.joined(endpoint);
    const queue = descriptors.datagrams.queue({ frontend, client: address });
    flow = new UDPFlow(newSocket(frontend), endpoint, {
      idleMs: frontend.udpIdleTimeoutMs,
      queue,
      answered: (message) => {
        // Source port 0 says that there is nowhere to answer to; Node.js throws for it.
        if (port === 0) return;
        // An answer that could not be sent is lost.
        queue.send(message.length, (sent) => this.#socket.send(message, port, address, sent));
      },
      ended: () => {
        claim.giveBack();
        this.#flows.delete(id);
      },
    });
    this.#flows.set(id, flow);
    return flow;
  }
}

function newSocket({ address }: ServedFrontend): Socket {
  return createSocket(
    address.family === 'IPv4' ? { type: 'udp4' } : { type: 'udp6', ipv6Only: true },
  );
}

interface UDPFlowOptions {
  readonly idleMs: number;
  /** Is closed with the flow. */
  readonly queue: SendQueue;
  readonly answered: (message: Buffer) => void;
  readonly ended: () => void;
}

/** Datagrams that may wait for the socket. More are dropped. */
const waitingMax = 64;

/** The datagrams between one client and one endpoint, with a socket of their own. */
class UDPFlow {
  readonly endpoint: EndpointKey;
  readonly #socket: Socket;
  readonly #options: UDPFlowOptions;
  readonly #idle: NodeJS.Timeout;
  #state: 'connecting' | 'connected' | 'ended' = 'connecting';
  /** What is to be done when the socket is connected. */
  #waiting: (() => void)[] = [];

  constructor(socket: Socket, { pool, index }: Endpoint, options: UDPFlowOptions) {
    this.endpoint = pool.key(index);
    this.#socket = socket;
    this.#options = options;
    this.#idle = setTimeout(() => this.end(), options.idleMs);
    this.#idle.unref();
    socket.on('message', (message) => {
      this.#idle.refresh();
      options.answered(message);
    });
    // For example when the endpoint refuses: the client's next datagram gets another endpoint.
    socket.on('error', () => this.end());
    socket.once('connect', () => this.#connected());
    socket.connect(pool.port(index), formatAddress(pool.address(index)));
  }

  send(message: Buffer): void {
    this.#idle.refresh();
    this.#options.queue.send(message.length, (sent) => {
      const send = (): void => {
        this.#socket.send(message, (error) => {
          sent();
          if (error !== null) this.end();
        });
      };
      if (this.#state === 'connected') send();
      else if (this.#waiting.length < waitingMax) this.#waiting.push(send);
      else sent();
    });
  }

  end(): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    clearTimeout(this.#idle);
    this.#options.queue.close();
    close(this.#socket);
    this.#options.ended();
  }

  #connected(): void {
    if (this.#state !== 'connecting') return;
    this.#state = 'connected';
    for (const send of this.#waiting.splice(0)) send();
  }
}

function close(socket: Socket): void {
  try {
    socket.close();
  } catch {
    // It is closed already: it could not be opened, for lack of descriptors or memory.
  }
}
