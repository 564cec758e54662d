/** One connection or datagram of a client of `kubectl fairlead test`, and the server that answers it. */
import { createSocket, type Socket } from 'node:dgram';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Attempt, type Status, serverPort } from './checks.ts';

/** What a server says of itself and of whom it sees, or how the connection failed. */
export type Exchanged =
  | { readonly server: string; readonly seen: string; readonly own: string }
  | { readonly failed: 'refused' | 'timeout' | 'other' | Status; readonly error: string };

export type Exchange = (
  target: Pick<Attempt, 'protocol' | 'address' | 'port' | 'through'>,
  timeoutMs: number,
) => Promise<Exchanged>;

/** Bytes of an answer over TCP: several packets of any usual MTU, so that a smaller one shows. */
const answerBytes = 12_000;

export const exchange: Exchange = ({ protocol, ...target }, timeoutMs) =>
  protocol === 'TCP' ? overTcp(target, timeoutMs) : overUdp(target, timeoutMs);

type At = Pick<Attempt, 'address' | 'port' | 'through'>;

function overTcp({ address, port, through }: At, timeoutMs: number): Promise<Exchanged> {
  const path = `/${address}/${port}`;
  const target = through ? { host: through, port: serverPort, path } : { host: address, port };
  return new Promise((resolve) => {
    let text = '';
    const signal = AbortSignal.timeout(timeoutMs);
    const request = get({ ...target, agent: false, signal }, (response) => {
      const own = response.socket.localAddress ?? '';
      response.setEncoding('latin1');
      response.on('data', (part: string) => {
        text += part;
        if (text.length <= answerBytes) return;
        request.destroy();
        resolve(foreign(response.statusCode));
      });
      response.on('error', () => resolve(late(`after ${text.length} bytes of ${answerBytes}`)));
      response.on('end', () => resolve(read(text, own, response.statusCode)));
    });
    request.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      resolve(signal.aborted ? late('') : failure(code, message));
    });
  });
}

function overUdp({ address, port }: At, timeoutMs: number): Promise<Exchanged> {
  return new Promise((resolve) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    const end = (outcome: Exchanged): void => {
      clearTimeout(timer);
      socket.close();
      resolve(outcome);
    };
    const timer = setTimeout(() => end(late('')), timeoutMs);
    socket.once('error', ({ code, message }: NodeJS.ErrnoException) => end(failure(code, message)));
    socket.once('message', (bytes) => end(read(bytes.toString(), socket.address().address)));
    // The kernel reports refusals only to connected sockets.
    socket.connect(port, address, () => socket.send('who'));
  });
}

function late(detail: string): Exchanged {
  return { failed: 'timeout', error: `timed out ${detail}`.trim() };
}

function failure(code: string | undefined, message: string): Exchanged {
  const isRefused = code === 'ECONNREFUSED';
  return { failed: isRefused ? 'refused' : 'other', error: isRefused ? 'refused' : message };
}

/** `own`: the address of the client. */
function read(text: string, own: string, status?: number): Exchanged {
  const [word, server = '', seen = ''] = text.trimEnd().split(' ');
  if (text === '') return { failed: 'other', error: 'no answer' };
  return word === 'fairlead-test' ? { server, seen, own: plain(own) } : foreign(status);
}

function foreign(status: number | undefined): Exchanged {
  const error = `another program answered${status ? `, status ${status}` : ''}`;
  return { failed: status ? `status ${status}` : 'other', error };
}

/** Without the prefix of IPv4 addresses on a socket of both families. */
function plain(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '');
}

function passedOn(one: Exchanged): string {
  return 'failed' in one ? '' : `fairlead-test ${one.server} ${one.seen}`;
}

interface Running {
  readonly ports: { readonly TCP: number; readonly UDP: number };
  close(): void;
}

/** How long a server waits that connects in place of a client, which waits for longer. */
const throughMs = 1500;

/**
 * Answers on `port` over TCP and UDP, in all families; 0: those that the kernel chooses. Asked for
 * `/ADDRESS/PORT`, it connects there if that is one of `to`, and passes on what a server of a test
 * answers.
 */
export async function serve(
  name: string,
  port: number,
  to: readonly string[] = [],
): Promise<Running> {
  const answer = (client: string): string => `fairlead-test ${name} ${plain(client)}`;
  const http = createServer(async ({ socket, url = '' }, response) => {
    response.setHeader('connection', 'close');
    const [, address, asked] = url.split('/');
    if (!address) return response.end(answer(socket.remoteAddress ?? '').padEnd(answerBytes));
    // Others would get past network policies by it.
    if (!to.includes(url.slice(1))) return response.end();
    const passed = overTcp({ address, port: Number(asked) }, throughMs).then(passedOn, () => '');
    response.end(await passed);
  });
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject).listen(port, resolve);
  });
  const udp = await bound('udp6', port).catch(() => bound('udp4', port));
  udp.on('message', (_, from) => udp.send(answer(from.address), from.port, from.address));
  const close = (): void => {
    http.close();
    udp.close();
  };
  const ports = { TCP: (http.address() as AddressInfo).port, UDP: udp.address().port };
  return { ports, close };
}

/** A machine may be without IPv6. */
function bound(type: 'udp4' | 'udp6', port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createSocket(type);
    // A client that is gone makes no server end.
    socket.once('error', reject).on('error', () => {});
    socket.bind(port, () => resolve(socket));
  });
}
