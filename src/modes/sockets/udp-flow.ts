/** The datagrams between one client and one endpoint, with a socket of their own. */
import type { Socket } from 'node:dgram';
import { formatAddress } from '../../net/address.ts';
import type { EndpointKey } from '../../net/endpoint-list.ts';
import type { Endpoint } from './connection.ts';
import type { SendQueue } from './datagrams.ts';

interface UDPFlowOptions {
  readonly idleMs: number;
  /** Is closed with the flow. */
  readonly queue: SendQueue;
  readonly answered: (message: Buffer) => void;
  readonly ended: () => void;
}

/** Datagrams that may wait for the socket. More are dropped. */
const waitingMax = 64;

export class UDPFlow {
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
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const send of waiting) send();
  }
}

function close(socket: Socket): void {
  try {
    socket.close();
  } catch {
    // It is closed already: it could not be opened, for lack of descriptors or memory.
  }
}
