/**
 * Begins TLS on accepted connections. A handshake takes a millisecond of the thread that also
 * answers probes, so there are few of them per second, and peers take turns.
 */
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { hostBlock } from '../../net/block.ts';
import type { ConnectionLimit } from '../http/connection-limit.ts';
import { Turns } from '../http/turns.ts';
import type { Certificate } from '../http/wire.ts';

const perTurn = 4;
const perSecond = 50;
/** How long a handshake may take, from when it begins. */
const handshakeMs = 5000;

interface HandshakesOptions {
  readonly certificate: Certificate;
  readonly limit: ConnectionLimit;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** The handshake is complete. */
  readonly secured: (socket: TLSSocket) => void;
}

export class Handshakes {
  readonly #options: HandshakesOptions;
  readonly #sockets = new Set<Socket>();
  /** Handshakes that have begun, by `endsOf`, and when they must be complete. */
  readonly #begun = new Map<string, { readonly socket: Socket; readonly untilMs: number }>();
  readonly #turns: Turns<Socket>;

  constructor(options: HandshakesOptions) {
    this.#options = options;
    const { certificate, now, secured } = options;
    const tls = process.getBuiltinModule('node:tls');
    // TLS 1.3 has no renegotiation, by which a client could have more handshakes.
    const server = tls.createServer({
      ...certificate,
      minVersion: 'TLSv1.3',
      allowHalfOpen: true,
      noDelay: true,
    });
    server.on('secureConnection', (socket) => {
      this.#begun.delete(endsOf(socket));
      secured(socket);
    });
    server.on('tlsClientError', (_, socket) => socket.destroy());
    this.#turns = new Turns({
      perTurn,
      perSecond,
      now,
      take: (socket) => {
        if (socket.destroyed) return;
        this.#begun.set(endsOf(socket), { socket, untilMs: now() + handshakeMs });
        server.emit('connection', socket);
      },
    });
  }

  /** The connection counts for the limit from now on, until it closes. */
  add(socket: Socket): void {
    const { limit } = this.#options;
    const peer = hostBlock(socket.remoteAddress ?? '');
    const ends = endsOf(socket);
    const member = { peer, destroy: () => void socket.destroy() };
    socket.on('error', () => {});
    socket.once('close', () => {
      limit.delete(member);
      this.#sockets.delete(socket);
      this.#begun.delete(ends);
      this.#turns.remove(peer, (one) => one === socket);
    });
    this.#sockets.add(socket);
    this.#turns.add(peer, socket);
    limit.add(member);
  }

  /** Closes connections whose handshake takes too long. */
  check(nowMs: number): void {
    for (const { socket, untilMs } of this.#begun.values()) if (nowMs >= untilMs) socket.destroy();
  }

  close(): void {
    this.#turns.close();
    for (const socket of [...this.#sockets]) socket.destroy();
  }
}

/** What a connection and its TLS have in common, and no other connection to this listener has. */
function endsOf({ localAddress, remoteAddress, remotePort }: Socket): string {
  return `${localAddress} ${remoteAddress} ${remotePort}`;
}
