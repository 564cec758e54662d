import net from 'node:net';
import type { Attempt, Identity, SocketAddress } from '../outcome.ts';
import { codeOf, type Flow, Mailbox, type Reply, type Server, type Transport } from './flow.ts';

const QUESTION = '?\n';
const CHUNK_BYTES = 16_384;
const CHUNK_INTERVAL_MS = 5;

function serve(socket: net.Socket, name: string): void {
  let pending = '';
  let toSend = 0;
  let timer: NodeJS.Timeout | undefined;
  const sendChunk = (): void => {
    const bytes = Math.min(toSend, CHUNK_BYTES);
    toSend -= bytes;
    socket.write(Buffer.alloc(bytes));
    timer = toSend > 0 ? setTimeout(sendChunk, CHUNK_INTERVAL_MS) : undefined;
  };
  socket.on('data', (data) => {
    const lines = (pending + data.toString('latin1')).split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '?') {
        const identity: Identity = {
          by: name,
          port: socket.localPort ?? 0,
          source: socket.remoteAddress ?? '',
          sourcePort: socket.remotePort ?? 0,
        };
        socket.write(`${JSON.stringify(identity)}\n`);
      } else {
        toSend = Number(line.slice('send '.length));
        sendChunk();
      }
    }
  });
  // Clients close by RST.
  socket.on('error', () => {});
  socket.on('close', () => clearTimeout(timer));
}

function listen(at: SocketAddress, name: string): Promise<Server> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serve(socket, name);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: at.address, port: at.port }, () =>
      resolve({
        close: () => {
          server.close();
          for (const socket of sockets) socket.resetAndDestroy();
        },
      }),
    );
  });
}

/** A TCP connection; also the only flow that can download. */
export class TcpFlow implements Flow {
  readonly #socket: net.Socket;
  readonly #mailbox = new Mailbox();
  #line = '';
  #download: { bytesLeft: number; readonly server: Reply } | undefined;
  #server: Reply | undefined;

  constructor(attempt: Attempt, ownPort: number) {
    this.#socket = net.connect({
      host: attempt.to.address,
      port: attempt.to.port,
      localPort: ownPort,
      ...(attempt.from?.address === undefined ? {} : { localAddress: attempt.from.address }),
    });
    this.#socket.setNoDelay();
    this.#socket.on('data', (data) => this.#onData(data));
    this.#socket.on('end', () => this.#mailbox.end({ kind: 'closed' }));
    this.#socket.on('error', (error: NodeJS.ErrnoException) =>
      this.#mailbox.end({ kind: 'failed', code: codeOf(error) }),
    );
  }

  /** On a downloading flow: waits for the last byte, which counts as the server's answer. */
  ask(timeoutMs: number): Promise<Reply> {
    const download = this.#download;
    return this.#mailbox.next(timeoutMs, () => {
      if (download === undefined) {
        // Written before the connection is there: Node keeps it until then.
        this.#socket.write(QUESTION);
      } else if (download.bytesLeft === 0) {
        this.#mailbox.answer(download.server);
      }
    });
  }

  /** After a first answer: asks for this many bytes. They come at once, paced by the server. */
  startDownload(bytesLeft: number): void {
    if (this.#server === undefined) return;
    this.#download = { bytesLeft, server: this.#server };
    this.#socket.write(`send ${bytesLeft}\n`);
  }

  close(): void {
    // RST rather than FIN: no TIME_WAIT keeps the source port. A reset of a connection that is not
    // there yet would wait for it.
    if (this.#socket.connecting) this.#socket.destroy();
    else this.#socket.resetAndDestroy();
  }

  #onData(data: Buffer): void {
    if (this.#download !== undefined) {
      this.#download.bytesLeft -= data.length;
      if (this.#download.bytesLeft === 0) this.#mailbox.answer(this.#download.server);
      return;
    }
    // A question that was given up may be answered together with the next one.
    const lines = (this.#line + data.toString('latin1')).split('\n');
    this.#line = lines.pop() ?? '';
    const last = lines.at(-1);
    if (last === undefined) return;
    const identity = JSON.parse(last) as Identity;
    this.#server = { kind: 'answered', identity, own: this.#socket.localAddress ?? '' };
    this.#mailbox.answer(this.#server);
  }
}

export const tcp: Transport = {
  listen,
  flow: (attempt, ownPort) => new TcpFlow(attempt, ownPort),
};
