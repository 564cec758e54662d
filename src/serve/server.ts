/** A small HTTP server: fixed paths, whole answers, no framework. */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatHostPort, type HostPort } from '../config/host-port.ts';
import { formatAddress } from '../net/address.ts';
import { Connections } from './connections.ts';

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

export interface TextReply extends Reply {
  readonly body: string;
}

export interface Asked {
  readonly method: string;
  readonly query: URLSearchParams;
  /** The address of who asks; empty = gone meanwhile. */
  readonly peer: string;
  /** The Host header; empty = none. */
  readonly host: string;
  /** The Accept header; empty = none. */
  readonly accept: string;
  /** The Accept-Encoding header; empty = none. */
  readonly acceptEncoding: string;
  /** Reads the body of the request, up to a kilobyte. */
  readonly body: () => Promise<string>;
}

export type Route = (asked: Asked) => Reply | Promise<Reply>;

/** Routes by path. Each answers any method, unless it checks the method. Other paths are 404. */
export type Routes = Readonly<Record<string, Route>>;

export const jsonHeaders = {
  'Content-Type': 'application/json',
  'X-Content-Type-Options': 'nosniff',
} as const;

export const textHeaders = {
  'Content-Type': 'text/plain; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
} as const;

const notFound: Reply = { status: 404, headers: textHeaders, body: '404 page not found\n' };

interface ServeOptions {
  readonly at: HostPort;
  readonly routes: Routes;
  /** When the address can't be bound: `fail` rejects, `retry` tries again. */
  readonly onBindFailure: 'retry' | 'fail';
  /** The server could not bind, or failed later. */
  readonly problem: (error: Error) => void;
  readonly retryMs?: number;
}

const retryDefaultMs = 5000;
const connectionsMax = 256;
const bodyMax = 1024;

/** Serves until `signal` aborts. Rejects when it can't bind and may not retry. */
export async function serve(options: ServeOptions, signal: AbortSignal): Promise<void> {
  const { at, onBindFailure, problem, retryMs = retryDefaultMs } = options;
  const connections = new Connections(connectionsMax);
  while (!signal.aborted) {
    const server = createServer((request, response) => {
      answer(options.routes, request).then(
        ({ status, headers, body }) => response.writeHead(status, headers).end(body),
        (error: Error) => response.writeHead(500, textHeaders).end(`${error.message}\n`),
      );
    });
    connections.bound(server);
    try {
      await untilClosed(server, at, signal);
    } catch (error) {
      const words = `cannot serve on ${formatHostPort(at)}: ${bindFailure(error as Error)}`;
      const failure = new Error(words, { cause: error });
      problem(failure);
      if (onBindFailure === 'fail') throw failure;
      await sleep(retryMs, undefined, { signal }).catch(() => {});
    }
  }
}

function bindFailure(error: Error & { readonly code?: string }): string {
  if (error.code !== 'EADDRINUSE') return error.message;
  return `${error.message}: another program has the port, most likely a kube-proxy that runs on this node, too`;
}

async function answer(routes: Routes, request: IncomingMessage): Promise<Reply> {
  const { method = 'GET', url = '/', headers } = request;
  const [path = '/'] = url.split('?', 1);
  const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
  if (route === undefined) return notFound;
  const query = new URLSearchParams(url.slice(path.length + 1));
  return route({
    method,
    query,
    peer: request.socket.remoteAddress ?? '',
    host: headers.host ?? '',
    accept: headers.accept ?? '',
    // Node joins several headers of this name.
    acceptEncoding: String(headers['accept-encoding'] ?? ''),
    body: () => readBody(request),
  });
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const part of request.setEncoding('utf8')) {
    text += part;
    if (text.length > bodyMax) break;
  }
  return text.slice(0, bodyMax);
}

/** Resolves when the signal closed the server; rejects when it can't listen. */
function untilClosed(server: Server, at: HostPort, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const close = (): void => {
      server.close(() => resolve());
      server.closeAllConnections();
    };
    signal.addEventListener('abort', close, { once: true });
    server.once('error', (error) => {
      signal.removeEventListener('abort', close);
      reject(error);
    });
    const { address, port } = at;
    // As Go does: a wildcard of either family means both, where the host has both.
    const isWildcard = address.bytes.every((byte) => byte === 0);
    const host = isWildcard ? {} : { host: formatAddress(address.bytes) };
    server.listen({ ...host, port });
    if (signal.aborted) close();
  });
}
