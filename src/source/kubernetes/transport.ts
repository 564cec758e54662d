/**
 * Transports of requests to the API server: node:https (docs/decisions/0027-node-https.md), or a
 * proxy, for which undici is loaded.
 */
import type { ClientRequest, RequestOptions } from 'node:http';
import type { Readable } from 'node:stream';
import type { SecureContext } from 'node:tls';
import type { ClusterAccess } from './kubeconfig.ts';

/** An idle connection is probed before common load balancers drop it (60 s). */
const keepAliveDelayMs = 30_000;
/** An unused connection is closed before servers and load balancers do it. */
const unusedMs = 4000;
const connectMaxMs = 10_000;

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  /** With its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

export interface HttpResponse {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** It may not be complete yet. It ends with an error if the connection breaks. */
  readonly body: Readable;
}

/** Connections that use one set of certificates. None has a timeout: readers have their own. */
export interface Transport {
  /** Rejects if no answer begins, and when `signal` aborts, which also ends a running body. */
  request(request: HttpRequest): Promise<HttpResponse>;
  /**
   * Called when no more requests are sent. Running ones continue, and their connections end with
   * them. Resolves with the last of them; never rejects.
   */
  retire(): Promise<void>;
  /** Ends all connections. */
  destroy(): void;
}

export interface TlsOptions {
  readonly secureContext: SecureContext;
  readonly rejectUnauthorized: boolean;
  /** Absent = the host name. */
  readonly servername?: string;
}

export function createTransport(access: ClusterAccess, secureContext: SecureContext): Transport {
  const tls = {
    secureContext,
    rejectUnauthorized: access.verification === 'verify',
    ...(access.tlsServerName === undefined ? {} : { servername: access.tlsServerName }),
  };
  const { proxy, server } = access;
  if (proxy === undefined) return new DirectTransport(server, tls);
  return new ProxiedTransport(async () => {
    const { openProxied } = await import('./proxied-transport.ts');
    return openProxied(server, proxy, tls);
  });
}

/** One request at a time on a connection, and as many connections as requests. */
class DirectTransport implements Transport {
  readonly #server: URL;
  readonly #requests = new Set<ClientRequest>();
  readonly #agent;
  readonly #send;

  constructor(server: URL, tls: TlsOptions) {
    // The export list of an `import` of node:http would load Node's own copy of undici, 13 MB.
    const isSecure = server.protocol === 'https:';
    const http = process.getBuiltinModule(isSecure ? 'node:https' : 'node:http');
    const pooling = { keepAlive: true, keepAliveMsecs: keepAliveDelayMs, timeout: unusedMs };
    this.#server = server;
    this.#agent = new http.Agent(isSecure ? { ...pooling, ...tls } : pooling);
    this.#send = http.request;
  }

  request(asked: HttpRequest): Promise<HttpResponse> {
    const { method, path, headers, body, signal } = asked;
    const { hostname, port } = this.#server;
    const options: RequestOptions = {
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      ...(port === '' ? {} : { port }),
      agent: this.#agent,
      method,
      path,
      headers,
      timeout: 0,
      signal,
    };
    return new Promise((resolve, reject) => {
      const request = this.#send(options);
      this.#requests.add(request);
      let received: Readable | undefined;
      request.on('response', (response) => {
        received = response;
        const { statusCode = 0, headers: answered } = response;
        resolve({ statusCode, headers: answered, body: response });
      });
      request.on('error', (error) => {
        received?.destroy(error);
        // The server may have closed an unused connection before it received the request.
        const isStale = request.reusedSocket && isReset(error) && received === undefined;
        if (isStale && method === 'GET') resolve(this.request(asked));
        else reject(error);
      });
      request.on('close', () => this.#requests.delete(request));
      limitConnecting(request);
      request.end(body);
    });
  }

  async retire(): Promise<void> {
    this.#agent.maxFreeSockets = 0;
    for (const sockets of Object.values(this.#agent.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
    const ends = [...this.#requests].map(
      (request) => new Promise((end) => request.on('close', end)),
    );
    await Promise.all(ends);
  }

  destroy(): void {
    for (const request of this.#requests) request.destroy();
    this.#agent.destroy();
  }
}

/** Loads the proxy client with the first request. */
class ProxiedTransport implements Transport {
  readonly #open: () => Promise<Transport>;
  #transport: Promise<Transport> | undefined;

  constructor(open: () => Promise<Transport>) {
    this.#open = open;
  }

  async request(request: HttpRequest): Promise<HttpResponse> {
    this.#transport ??= this.#open();
    return (await this.#transport).request(request);
  }

  async retire(): Promise<void> {
    await (await this.#transport)?.retire();
  }

  destroy(): void {
    void this.#transport?.then((transport) => transport.destroy());
  }
}

/** Ends a request that waits for its connection for too long. */
function limitConnecting(request: ClientRequest): void {
  request.once('socket', (socket) => {
    if (!socket.connecting) return;
    const giveUp = (): void => {
      const error = new Error('timed out while connecting');
      request.destroy(Object.assign(error, { code: 'ETIMEDOUT' }));
    };
    const timer = setTimeout(giveUp, connectMaxMs);
    const connected = 'encrypted' in socket ? 'secureConnect' : 'connect';
    for (const event of [connected, 'close']) socket.once(event, () => clearTimeout(timer));
  });
}

function isReset(error: Error): boolean {
  return 'code' in error && (error.code === 'ECONNRESET' || error.code === 'EPIPE');
}
