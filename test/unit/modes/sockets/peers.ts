/** Endpoints and clients on loopback addresses, for sockets that are tested in this process. */
import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';
import { frontendId, type ServedFrontend } from '../../../../src/modes/sockets/frontends.ts';
import type { Remembering } from '../../../../src/modes/sockets/memory.ts';
import { Switchboard } from '../../../../src/modes/sockets/switchboard.ts';
import { EndpointList } from '../../../../src/net/endpoint-list.ts';
import type { Protocol } from '../../../../src/net/protocol.ts';
import { freePort } from '../../free-port.ts';
import { address } from '../../state/build.ts';
import { quiet } from '../../sync/double.ts';

/** Of this process: other files, which other processes run, have the same addresses. */
export const port = await freePort();

/** Each test has addresses of its own. */
export function host(block: number, number: number): string {
  return `127.201.${block}.${number}`;
}

export function pool(...hosts: readonly string[]): EndpointList {
  const endpoints = hosts.map((text) => ({ address: address(text).bytes, port }));
  return EndpointList.of('IPv4', endpoints);
}

/** At `host`, to these endpoints, for everyone. */
export function frontend(
  at: string,
  endpoints: EndpointList,
  fields: Partial<ServedFrontend> & { readonly protocol?: Protocol } = {},
): ServedFrontend {
  const { protocol = 'TCP' } = fields;
  return {
    id: frontendId(address(at), protocol, port),
    address: address(at),
    protocol,
    port,
    pools: { node: endpoints, pod: endpoints, outside: endpoints },
    networks: undefined,
    right: [endpoints],
    affinity: remembering(endpoints, 0),
    clients: undefined,
    selfClients: [],
    udpIdleTimeoutMs: 5000,
    isEnding: false,
    maxAgeMs: undefined,
    ...fields,
  };
}

/** Session affinity of a Service port that has only these endpoints. */
export function remembering(endpoints: EndpointList, timeoutSeconds: number): Remembering {
  return { id: 'IPv4 default/web/TCP', timeoutSeconds, pools: [endpoints] };
}

export function switchboard(): Switchboard {
  const made = new Switchboard();
  onTestFinished(() => made.closeAll());
  return made;
}

/** Answers everything with its own address; a client that ends its half receives `bye`. */
export async function tcpEndpoint(at: string): Promise<void> {
  const server = createServer({ allowHalfOpen: true }, (client) => {
    client.on('error', () => {});
    client.on('data', () => client.write(at));
    client.on('end', () => client.end('bye'));
  });
  server.listen({ host: at, port });
  await once(server, 'listening');
  onTestFinished(() => void server.close());
}

/** Its kernel answers no connection: those that it may have are there, and nothing accepts them. */
export async function silentEndpoint(at: string): Promise<void> {
  const accepting = `const { parentPort, workerData } = require('node:worker_threads');
    require('node:net').createServer().listen(workerData, () => {
      parentPort.postMessage('listens');
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    });`;
  const workerData = { host: at, port, backlog: 1 };
  const server = new Worker(accepting, { eval: true, workerData });
  onTestFinished(async () => void (await server.terminate()));
  await once(server, 'message');
  // One more than `backlog`.
  await Promise.all([1, 2].map(() => once(new TCPClient(at).socket, 'connect')));
}

export async function udpEndpoint(at: string): Promise<void> {
  const socket = createSocket('udp4', (_, from) => socket.send(at, from.port, from.address));
  socket.bind(port, at);
  await once(socket, 'listening');
  onTestFinished(() => void socket.close());
}

export class TCPClient {
  readonly socket: Socket;

  constructor(at: string, from?: string) {
    this.socket = connect({ host: at, port, localAddress: from, allowHalfOpen: true });
    this.socket.on('error', () => {});
    onTestFinished(() => void this.socket.destroy());
  }

  /** The answer, or how it ended: `closed`, `refused`, `reset`. */
  async ask(): Promise<string> {
    this.socket.write('who?');
    return this.read();
  }

  async read(): Promise<string> {
    const answered = once(this.socket, 'data').then(([data]) => String(data));
    const closed = once(this.socket, 'close').then(() => 'closed');
    return Promise.race([answered, closed]).catch(({ code }: { code: string }) =>
      code === 'ECONNREFUSED' ? 'refused' : 'reset',
    );
  }
}

/** The answer of a connection that is closed again. */
export async function askOnce(at: string, from?: string): Promise<string> {
  const client = new TCPClient(at, from);
  const answer = await client.ask();
  client.socket.destroy();
  return answer;
}

export class UDPClient {
  readonly #socket: DatagramSocket;
  readonly #at: string;

  constructor(at: string) {
    this.#at = at;
    this.#socket = createSocket('udp4');
    onTestFinished(() => void this.#socket.close());
  }

  /** The answer. */
  async ask(): Promise<string> {
    const answered = once(this.#socket, 'message');
    this.#socket.send('who?', port, this.#at);
    const [message] = await answered;
    return String(message);
  }

  /** Asks; the answer, or `silence` if none comes while all that is under way arrives. */
  async mayAsk(): Promise<string> {
    const sent = Promise.withResolvers<void>();
    let answer = 'silence';
    const answered = (message: Buffer): void => {
      answer = String(message);
    };
    this.#socket.once('message', answered);
    this.#socket.send('who?', port, this.#at, () => sent.resolve());
    await sent.promise;
    await quiet();
    this.#socket.off('message', answered);
    return answer;
  }
}
