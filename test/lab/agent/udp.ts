import dgram from 'node:dgram';
import type { Attempt, Identity, SocketAddress } from '../outcome.ts';
import { codeOf, type Flow, Mailbox, type Reply, type Server, type Transport } from './flow.ts';

function socketFor(address: string): dgram.Socket {
  return dgram.createSocket(address.includes(':') ? 'udp6' : 'udp4');
}

function listen(at: SocketAddress, name: string): Promise<Server> {
  const socket = socketFor(at.address);
  socket.on('message', (_question, peer) => {
    const identity: Identity = {
      by: name,
      port: at.port,
      source: peer.address,
      sourcePort: peer.port,
    };
    socket.send(JSON.stringify(identity), peer.port, peer.address, () => {});
  });
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.bind({ address: at.address, port: at.port }, () => {
      // Ignores ICMP errors about answers to clients that no longer wait.
      socket.removeAllListeners('error').on('error', () => {});
      resolve({ close: () => socket.close() });
    });
  });
}

/** A connected UDP socket, because only these get ICMP errors. */
class UdpFlow implements Flow {
  readonly #socket: dgram.Socket;
  readonly #mailbox = new Mailbox();
  readonly #connected: Promise<void>;

  constructor(attempt: Attempt, ownPort: number) {
    this.#socket = socketFor(attempt.to.address);
    this.#connected = new Promise((resolve) => {
      const fail = (error: NodeJS.ErrnoException): void =>
        this.#mailbox.answer({ kind: 'failed', code: codeOf(error) });
      this.#socket.on('error', fail);
      this.#socket.on('message', (data) => {
        const identity = JSON.parse(data.toString()) as Identity;
        const own = this.#socket.address().address;
        this.#mailbox.answer({ kind: 'answered', identity, own });
      });
      const from = attempt.from?.address;
      this.#socket.bind({ port: ownPort, ...(from === undefined ? {} : { address: from }) }, () =>
        this.#socket.connect(attempt.to.port, attempt.to.address, (error?: Error) =>
          error === undefined ? resolve() : fail(error),
        ),
      );
    });
  }

  ask(timeoutMs: number): Promise<Reply> {
    return this.#mailbox.next(timeoutMs, () => {
      void this.#connected.then(() =>
        this.#socket.send('?', (error) => {
          if (error !== null) this.#mailbox.answer({ kind: 'failed', code: codeOf(error) });
        }),
      );
    });
  }

  close(): void {
    this.#socket.close();
  }
}

export const udp: Transport = {
  listen,
  flow: (attempt, ownPort) => new UdpFlow(attempt, ownPort),
};
