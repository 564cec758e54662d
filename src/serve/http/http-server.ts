/**
 * The server of all HTTP ports. It runs on its own thread, so that network input never blocks the
 * event loop, and answers probes itself. It reads one request at a time of each connection. Peers
 * take turns, and the number of requests per second is bounded.
 */
import type { Server, Socket } from 'node:net';
import { type ProbePath, probePaths } from '../health-answer.ts';
import { Handshakes } from '../readers/handshakes.ts';
import { jsonHeaders, notFound, type Reply } from '../reply.ts';
import { Budget, Client } from './client.ts';
import { ConnectionLimit } from './connection-limit.ts';
import { Forwards, noAnswer, splitTarget } from './forwards.ts';
import { Payloads } from './payloads.ts';
import type { Probes } from './probes.ts';
import type { SharedMemory } from './shared-memory.ts';
import { Turns } from './turns.ts';
import type { Answers, FromThread, Group, ToThread } from './wire.ts';

/** The most connections to the ports of a group together. */
const connectionsMax: Readonly<Record<Group, number>> = {
  healthz: 256,
  metrics: 256,
  read: 64,
  'service health': 1024,
};
/** Bytes of requests that are incomplete, or wait for their turn, of all connections. */
const heldBytesMax = 4 * 1024 * 1024;
/** Bytes of answers that clients have not read, of all connections. */
const unreadBytesMax = 16 * 1024 * 1024;
/** Requests of all connections together. */
const requestsPerTurn = 64;
const requestsPerSecond = 4000;
/** How often timeouts are checked while there are connections. */
const tickMs = 1000;

/** Load balancers wait for an answer for at least a second. */
const firstWordMs = 800;
const firstWordStepMs = 20;

interface HttpServerOptions {
  readonly send: (message: FromThread) => void;
  readonly probes: Omit<Probes, 'turned'>;
  readonly memory: SharedMemory;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
}

type Opening = Extract<ToThread, { kind: 'open' }>;

interface Listener {
  readonly id: number;
  readonly answers: Answers;
  readonly server: Server;
  readonly clients: Set<Client>;
  /** Absent: without TLS. */
  handshakes?: Handshakes;
}

export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #listeners = new Map<number, Listener>();
  readonly #limits: Readonly<Record<Group, ConnectionLimit>> = {
    healthz: new ConnectionLimit(connectionsMax.healthz),
    metrics: new ConnectionLimit(connectionsMax.metrics),
    read: new ConnectionLimit(connectionsMax.read),
    'service health': new ConnectionLimit(connectionsMax['service health']),
  };
  readonly #held = new Budget(heldBytesMax);
  readonly #payloads = new Payloads(unreadBytesMax);
  readonly #turns: Turns<{ readonly client: Client; readonly listener: Listener }>;
  readonly #forwards: Forwards;
  #ticking: NodeJS.Timeout | undefined;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    const { now, send } = options;
    this.#turns = new Turns({
      perTurn: requestsPerTurn,
      perSecond: requestsPerSecond,
      now,
      take: ({ client, listener }) => this.#answer(client, listener),
    });
    this.#forwards = new Forwards({ now, send: (request) => send({ kind: 'request', request }) });
  }

  receive(message: Exclude<ToThread, { kind: 'refreshed' }>): void {
    switch (message.kind) {
      case 'open':
        this.#open(message);
        return;
      case 'close':
        this.#close(message.listener);
        return;
      case 'reply':
        this.#forwards.replied(message.id, message.reply);
        return;
    }
  }

  close(): void {
    clearInterval(this.#ticking);
    this.#turns.close();
    this.#forwards.close();
    for (const id of [...this.#listeners.keys()]) this.#close(id);
  }

  /** Bytes that connections use now. */
  get use() {
    return {
      connections: Object.values(this.#limits).reduce((sum, { size }) => sum + size, 0),
      heldBytes: this.#held.used,
      unreadBytes: this.#payloads.bytes,
      underWay: this.#forwards.underWay,
      waiting: this.#turns.waiting + this.#forwards.waiting,
    };
  }

  #open({ answers, certificate, group, listener: id, place }: Opening): void {
    const { now, send } = this.#options;
    const net = process.getBuiltinModule('node:net');
    // Without a high-water mark, a paused socket reads nothing ahead.
    const server = net.createServer({ allowHalfOpen: true, noDelay: true, highWaterMark: 0 });
    const listener: Listener = { id, answers, server, clients: new Set() };
    this.#listeners.set(id, listener);
    const limit = this.#limits[group];
    if (certificate === undefined) {
      server.on('connection', (socket) => this.#connected(listener, limit, socket));
    } else {
      const secured = (socket: Socket): void => this.#connected(listener, undefined, socket);
      listener.handshakes = new Handshakes({ certificate, limit, now, secured });
      server.on('connection', (socket) => {
        listener.handshakes?.add(socket);
        this.#startTicking();
      });
    }
    server.on('error', (error: NodeJS.ErrnoException) => {
      if (this.#listeners.get(id) !== listener) return;
      this.#close(id);
      send({ kind: 'failed', listener: id, message: error.message, code: error.code });
    });
    server.listen(place, () => send({ kind: 'opened', listener: id }));
  }

  #close(id: number): void {
    const listener = this.#listeners.get(id);
    if (listener === undefined) return;
    this.#listeners.delete(id);
    this.#forwards.closeListener(id);
    listener.server.close();
    listener.handshakes?.close();
    for (const client of [...listener.clients]) client.destroy();
  }

  /** `limit`: undefined if the connection counts for it already. */
  #connected(listener: Listener, limit: ConnectionLimit | undefined, socket: Socket): void {
    const client = new Client({
      socket,
      held: this.#held,
      payloads: this.#payloads,
      now: this.#options.now,
      wallMs: () => Date.now(),
      asked: (one) => {
        one.await(Number.POSITIVE_INFINITY);
        this.#turns.add(one.peer, { client: one, listener });
      },
      closed: (one) => {
        limit?.delete(one);
        listener.clients.delete(one);
        this.#turns.remove(one.peer, (waiting) => waiting.client === one);
        this.#forwards.remove(one);
      },
    });
    listener.clients.add(client);
    limit?.add(client);
    this.#startTicking();
  }

  #answer(client: Client, { answers, id }: Listener): void {
    if (!client.isAsking) return;
    const [path] = splitTarget(client.request.target);
    switch (answers.kind) {
      case 'probes':
        this.#probe(client, path);
        return;
      case 'service':
        this.#options.probes.refresh(() => client.reply(this.#serviceHealth(answers)));
        return;
      case 'paths': {
        const handling = Object.hasOwn(answers.paths, path) ? answers.paths[path] : undefined;
        if (handling === undefined) client.reply(notFound);
        else this.#forwards.add(client, id, handling);
        return;
      }
    }
  }

  #probe(client: Client, path: string): void {
    if (!probePaths.includes(path)) {
      client.reply(notFound);
      return;
    }
    const { memory, probes } = this.#options;
    const answer = (): void => {
      if (!client.isAsking) return;
      const reply = probes.answer(path as ProbePath);
      if (path === '/healthz') memory.count('healthz', reply.status);
      if (path === '/livez') memory.count('livez', reply.status);
      client.reply(reply);
    };
    if (path === '/healthz') probes.refresh(() => this.#onFirstWord(client, answer, 0));
    else probes.refresh(answer);
  }

  /**
   * Calls `call` when it is known whether this Node exists, or after a short time. Just after the
   * start it is not known, and rules of an earlier process serve: a load balancer that got a "no"
   * would move connections to other nodes, which do not know them.
   */
  #onFirstWord(client: Client, call: () => void, waitedMs: number): void {
    if (!client.isAsking) return;
    if (waitedMs >= firstWordMs || this.#options.probes.nodeListed) call();
    else {
      const next = waitedMs + firstWordStepMs;
      setTimeout(() => this.#onFirstWord(client, call, next), firstWordStepMs);
    }
  }

  #serviceHealth({ name, namespace, slot }: Extract<Answers, { kind: 'service' }>): Reply {
    const { memory, probes } = this.#options;
    const localEndpoints = memory.endpoints(slot);
    const serviceProxyHealthy = probes.healthy;
    const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy };
    return {
      status: localEndpoints > 0 && serviceProxyHealthy ? 200 : 503,
      headers: { ...jsonHeaders, 'X-Load-Balancing-Endpoint-Weight': String(localEndpoints) },
      body: JSON.stringify(body, undefined, '\t'),
    };
  }

  #check(nowMs: number): void {
    for (const { clients, handshakes } of this.#listeners.values()) {
      handshakes?.check(nowMs);
      for (const client of [...clients]) client.check(nowMs, noAnswer);
    }
  }

  #startTicking(): void {
    this.#ticking ??= setInterval(() => this.#tick(), tickMs);
  }

  #tick(): void {
    const nowMs = this.#options.now();
    this.#options.probes.tick();
    this.#forwards.check(nowMs);
    // After what has arrived is read: where this thread had to wait for the processor, it may be
    // requests on connections that seem idle.
    setImmediate(() => this.#check(nowMs));
    const { connections, underWay } = this.use;
    if (connections > 0 || underWay > 0 || this.#options.probes.isWaiting) return;
    clearInterval(this.#ticking);
    this.#ticking = undefined;
  }
}
