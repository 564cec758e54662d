/** Connections to the fake API server that are made of nothing but virtual time. */
import { Agent } from 'node:http';
import { Duplex } from 'node:stream';
import type { Random } from '../chaos/random.ts';
import type { VirtualTime } from './virtual-time.ts';

/** `unsteady`: bytes are late now and then. `refused`, `silent`: what new connections meet. */
type Weather = 'fair' | 'unsteady' | 'refused' | 'silent';

interface NetworkOptions {
  readonly time: VirtualTime;
  readonly random: Random;
  readonly accept: (socket: Duplex) => void;
  /** No process can open another socket. */
  readonly isShort: () => boolean;
}

export class FakeNetwork {
  readonly #options: NetworkOptions;
  readonly #clients = new Set<Socket>();
  /** Ports of clients' servers: one for each start of the program. */
  readonly #dead = new Set<string>();
  weather: Weather = 'fair';

  constructor(options: NetworkOptions) {
    this.#options = options;
    Agent.prototype.createConnection = ((where: { port: number | string }) =>
      this.#connect(String(where.port))) as unknown as typeof Agent.prototype.createConnection;
  }

  /** Connections that are open stay so, and carry nothing any more. */
  freeze(): void {
    for (const client of this.#clients) client.isFrozen = client.peer.isFrozen = true;
  }

  /** Both ends learn that the connection has been reset. */
  reset(): void {
    for (const client of this.#clients) {
      client.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
      client.peer.destroy();
    }
  }

  /** A program that was killed: its connections end, and it gets no others. */
  kill(port: string): void {
    this.#dead.add(port);
    for (const client of this.#clients) {
      if (client.port === port) client.peer.destroy();
    }
  }

  #connect(port: string): Socket {
    const { accept, random, time } = this.#options;
    const options = { ...this.#options, isFair: () => this.weather === 'fair' };
    const [client, server] = [new Socket(options, port), new Socket(options, port)];
    client.peer = server;
    server.peer = client;
    if (this.#dead.has(port) || this.weather === 'silent') return client;
    const code = this.#options.isShort() ? 'EMFILE' : 'ECONNREFUSED';
    if (this.weather === 'refused' || code === 'EMFILE') {
      const error = Object.assign(new Error(`connect ${code}`), { code });
      time.after(random.below(3), () => client.destroy(error));
      return client;
    }
    this.#clients.add(client);
    client.once('close', () => this.#clients.delete(client));
    time.after(random.below(5), () => {
      if (client.destroyed) return;
      client.connecting = server.connecting = false;
      client.emit('connect');
      accept(server);
    });
    return client;
  }
}

interface SocketOptions extends Pick<NetworkOptions, 'random' | 'time'> {
  readonly isFair: () => boolean;
}

/** As much of a net.Socket as HTTP needs. */
class Socket extends Duplex {
  readonly #options: SocketOptions;
  readonly port: string;
  readonly remoteAddress = '127.0.0.1';
  peer!: Socket;
  connecting = true;
  isFrozen = false;
  /** When the last of what was sent arrives: later bytes do not overtake earlier ones. */
  #arrivesMs = 0;

  constructor(options: SocketOptions, port: string) {
    super({ allowHalfOpen: false });
    this.#options = options;
    this.port = port;
    // Some are destroyed before anybody listens for errors.
    this.on('error', () => {});
  }

  setTimeout(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: string, done: () => void): void {
    const { random } = this.#options;
    const isSplit = chunk.length > 1 && random.below(4) === 0;
    const at = isSplit ? 1 + random.below(chunk.length - 1) : chunk.length;
    this.#carry(() => this.peer.push(chunk.subarray(0, at)));
    if (isSplit) this.#carry(() => this.peer.push(chunk.subarray(at)));
    done();
  }

  override _final(done: () => void): void {
    this.#carry(() => this.peer.push(null));
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#carry(() => {
      const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
      this.peer.destroy(this.peer.readableEnded ? undefined : reset);
    });
    done(error);
  }

  #carry(arrive: () => void): void {
    if (this.isFrozen) return;
    const { isFair, random, time } = this.#options;
    const isLate = random.below(50) === 0 && !isFair();
    const delayMs = random.below(isLate ? 2000 : 4);
    this.#arrivesMs = Math.max(this.#arrivesMs, time.nowMs + delayMs);
    time.after(this.#arrivesMs - time.nowMs, () => {
      if (!this.isFrozen && !this.peer.destroyed) arrive();
    });
  }
}
