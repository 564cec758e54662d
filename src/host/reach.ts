/** Tries what any program of this node could: to connect, to send a datagram, to find a route. */
import { createSocket, type Socket } from 'node:dgram';
import { connect } from 'node:net';
import type { Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';

/** What came of it. */
const answers = [
  'connected',
  'answered',
  'refused',
  'timeout',
  'silent',
  'no_route',
  'unreachable',
  'blackhole',
  'prohibited',
  'failed',
] as const;
type ReachAnswer = (typeof answers)[number];

export interface Reached {
  /** `silent`: nothing came back for a datagram, which says nothing. */
  readonly answer: ReachAnswer;
  readonly tookMs: number;
  /** The port that it was sent from; undefined where it was not sent. */
  readonly sourcePort: number | undefined;
  /** The error of the kernel, and its name. */
  readonly error?: string;
  readonly code?: string;
}

export interface ReachTarget {
  /** In text. */
  readonly address: string;
  readonly family: Family;
  readonly port: number;
}

/** What errors of connect(2) and send(2) say. */
const answerOf: Readonly<Record<string, ReachAnswer>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'refused',
  ETIMEDOUT: 'timeout',
  ENETUNREACH: 'no_route',
  EADDRNOTAVAIL: 'no_route',
  EHOSTUNREACH: 'unreachable',
  EINVAL: 'blackhole',
  EACCES: 'prohibited',
  EPERM: 'prohibited',
};

/** Whether the answer is as it should be; of a datagram, silence may be. */
export function isFine(answer: ReachAnswer): boolean {
  return answer === 'connected' || answer === 'answered' || answer === 'silent';
}

/** Opens a connection and closes it, or sends a datagram and waits. SCTP: undefined. */
export async function reach(
  protocol: Protocol,
  target: ReachTarget,
  timeoutMs: number,
): Promise<Reached | undefined> {
  if (protocol === 'SCTP') return undefined;
  return protocol === 'TCP' ? openConnection(target, timeoutMs) : sendDatagram(target, timeoutMs);
}

function openConnection({ address, port }: ReachTarget, timeoutMs: number): Promise<Reached> {
  const beginMs = performance.now();
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    let sourcePort: number | undefined;
    // In the next turn of the queue connect(2) has been called; after a refusal it is not known.
    process.nextTick(() => {
      sourcePort = socket.localPort;
    });
    const end = (answer: ReachAnswer, failure?: Failure): void => {
      socket.destroy();
      resolve({ answer, sourcePort, tookMs: performance.now() - beginMs, ...failure });
    };
    // Where the event loop was late, an answer may be there that was not read yet.
    socket.setTimeout(timeoutMs, () => void setImmediate(() => end('timeout')));
    socket.once('connect', () => end('connected'));
    socket.once('error', (error) => end(...failureOf(error)));
  });
}

type Failure = Pick<Reached, 'code' | 'error'>;

function failureOf({ code = '', message }: NodeJS.ErrnoException): [ReachAnswer, Failure] {
  return [answerOf[code] ?? 'failed', { code, error: message }];
}

/** DNS, and where servers in pods listen for it. */
const portsOfDNS: ReadonlySet<number> = new Set([53, 5353]);
/** A question of DNS, since servers answer nothing else: for the name servers of the root. */
const question = Uint8Array.of(0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1);

/** By a connected socket: the kernel reports refusals (ICMP) only to those. */
function sendDatagram(target: ReachTarget, timeoutMs: number): Promise<Reached> {
  const beginMs = performance.now();
  return new Promise((resolve) => {
    const socket = createSocket(target.family === 'IPv4' ? 'udp4' : 'udp6');
    let timer: NodeJS.Timeout | undefined;
    const end = (answer: ReachAnswer, failure?: Failure): void => {
      clearTimeout(timer);
      const sourcePort = portOf(socket);
      socket.close();
      resolve({ answer, sourcePort, tookMs: performance.now() - beginMs, ...failure });
    };
    socket.once('error', (error) => end(...failureOf(error)));
    socket.once('message', () => end('answered'));
    socket.once('connect', () => {
      timer = setTimeout(() => end('silent'), timeoutMs);
      socket.send(portsOfDNS.has(target.port) ? question : '', (error) => {
        if (error) socket.emit('error', error);
      });
    });
    socket.connect(target.port, target.address);
  });
}

function portOf(socket: Socket): number | undefined {
  try {
    return socket.address().port;
  } catch {
    return undefined;
  }
}

/** What `routesTo` finds: `found`, or why packets of this node do not get to the address. */
export type Route =
  | 'found'
  | Extract<ReachAnswer, 'no_route' | 'unreachable' | 'blackhole' | 'prohibited'>;

function isWithoutRoute(answer: ReachAnswer): answer is keyof typeof routeWords {
  return answer in routeWords;
}

/** Checks whether this node has routes to addresses; answers in their order. Sends nothing. */
export type FindRoutes = (
  addresses: readonly string[],
  family: Family,
) => Promise<readonly Route[]>;

/**
 * The kernel looks a route up when a socket for datagrams is connected. The port is any. All are
 * asked by one socket, since making one takes longer than to connect it.
 */
export const routesTo: FindRoutes = async (addresses, family) => {
  const socket = createSocket(family === 'IPv4' ? 'udp4' : 'udp6');
  const routes: Route[] = [];
  try {
    for (const address of addresses) routes.push(await routeBy(socket, address));
  } finally {
    socket.close();
  }
  return routes;
};

/** The socket is not connected afterwards. */
function routeBy(socket: Socket, address: string): Promise<Route> {
  return new Promise((resolve) => {
    const failed = (error: Error): void => {
      const [answer] = failureOf(error);
      resolve(isWithoutRoute(answer) ? answer : 'found');
    };
    // Without a descriptor or a port there is no socket, and the callback is never called.
    socket.once('error', failed);
    socket.connect(9, address, (error?: Error) => {
      socket.off('error', failed);
      if (error !== undefined) return failed(error);
      socket.disconnect();
      resolve('found');
    });
  });
}

/** Why packets do not get there, in the words of ip-route(8). */
export const routeWords = {
  no_route: 'this node has no route to it',
  unreachable: 'its route is "unreachable", or nothing has the address on its link',
  blackhole: 'its route is a blackhole',
  prohibited: 'its route is "prohibit", or a rule forbids it',
} as const satisfies Readonly<Record<Exclude<Route, 'found'>, string>>;
