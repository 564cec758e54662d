import net from 'node:net';
import type { Attempt, Identity, SocketAddress } from '../outcome.ts';
import { codeOf, type Flow, Mailbox, type Reply, type Server, type Transport } from './flow.ts';

const QUESTION = '?\n';
const ENOUGH = 'enough\n';
const CHUNK = Buffer.alloc(16_384);
const CHUNK_INTERVAL_MS = 5;
const DOWNLOAD_END = '\n';

function serve(socket: net.Socket, name: string): void {
  let pending = '';
  let timer: NodeJS.Timeout | undefined;
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
      } else if (line === 'send') {
        timer = setInterval(() => socket.write(CHUNK), CHUNK_INTERVAL_MS);
      } else {
        clearInterval(timer);
        socket.write(DOWNLOAD_END);
      }
    }
  });
  // Clients close by RST.
  socket.on('error', () => {});
  socket.on('close', () => clearInterval(timer));
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
  #downloading = false;
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

  /** Asks a question. During a download it asks for its end, whose last byte is the answer. */
  ask(timeoutMs: number): Promise<Reply> {
    return this.#mailbox.next(timeoutMs, () => {
      // This may be before the connection is made: Node keeps it until then.
      this.#socket.write(this.#downloading ? ENOUGH : QUESTION);
    });
  }

  /** Asks, after a first answer, for bytes without end. The server sets the rate. */
  startDownload(): void {
    if (this.#server === undefined) return;
    this.#downloading = true;
    this.#socket.write('send\n');
  }

  close(): void {
    // RST instead of FIN, so that no TIME_WAIT keeps the source port. A reset would wait for the
    // connection to be made.
    if (this.#socket.connecting) this.#socket.destroy();
    else this.#socket.resetAndDestroy();
  }

  #onData(data: Buffer): void {
    if (this.#downloading) {
      this.#downloading = data.at(-1) !== DOWNLOAD_END.charCodeAt(0);
      if (!this.#downloading) this.#mailbox.answer(this.#server!);
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
