import { pipeline, type Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SecureContext } from 'node:tls';
import { createGunzip } from 'node:zlib';
import { tryJSON } from '../decode/field-reader.ts';
import { type ContentTypeOptions, ContentTypes, type Form, jsonType } from './content-types.ts';
import { CredentialReader } from './credentials.ts';
import { ApiError, describeNetworkError, isUnreached, StreamError, statusError } from './errors.ts';
import type { PluginEvent } from './exec-plugin.ts';
import { proxyText } from './http-proxy.ts';
import { BodyTooLarge, readBody } from './json-body.ts';
import { type AccessOptions, type ClusterAccess, readAccess } from './kubeconfig.ts';
import { readStatus } from './protobuf/encoding.ts';
import {
  createTransport,
  type HttpRequest,
  type HttpResponse,
  type Transport,
} from './transport.ts';

const onlyJSON: ContentTypeOptions = { contentType: jsonType, acceptContentTypes: '' };
const errorBodyBytesMax = 64 * 1024;

export interface ClientOptions extends AccessOptions {
  /** Requests per second; below zero = no limit; 0 = the default, 5. */
  readonly qps: number;
  /** How many requests may be sent in one burst; 0 = the default, 10. */
  readonly burst: number;
  readonly userAgent: string;
  /** Default: JSON. */
  readonly contentTypes?: ContentTypeOptions;
  /** A credential plugin that runs longer is killed. Default 30,000. */
  readonly pluginTimeoutMs?: number;
  /** Called once with the reason why answers are JSON although protobuf is requested. */
  readonly onProtobufRefused?: (reason: string) => void;
  readonly observer?: (event: ClientEvent) => void;
}

export type ClientEvent = Exchange | Received | PluginEvent;

/** The answer to a request has begun, or there is none. */
interface Exchange {
  readonly kind: 'exchange';
  readonly method: Message['method'];
  /** The server's host, with its port. */
  readonly host: string;
  /** HTTP status; undefined = there was no answer. */
  readonly status: number | undefined;
  readonly durationMs: number;
  /** The body's; undefined = of a watch, whose sizes are not reported. */
  readonly sentBytes: number | undefined;
}

/** The body of an answer is complete. */
interface Received extends Pick<Exchange, 'method' | 'host'> {
  readonly kind: 'received';
  /** After decompression. */
  readonly bytes: number;
}

export type Query = Readonly<Record<string, string>>;

/** An answer with status 200. */
export interface ApiResponse {
  readonly form: Form;
  /** It may not be complete yet. */
  readonly body: AsyncIterable<Buffer>;
}

/** Requests to one API server, over HTTP/1.1: each watch has its own connection. */
export class ApiClient {
  readonly #access: ClusterAccess;
  readonly #credentials: CredentialReader;
  readonly #limiter: RateLimiter;
  readonly #contentTypes: ContentTypes;
  readonly #userAgent: string;
  readonly #observer: (event: ClientEvent) => void;
  /** ` through the proxy http://proxy:3128`, or nothing. */
  readonly #way: string;
  /** Appended to the error if the server cannot be reached. */
  readonly #advice: string;
  readonly #transports = new Set<Transport>();
  #current: { secureContext: SecureContext; transport: Transport } | undefined;

  private constructor(access: ClusterAccess, options: ClientOptions) {
    this.#access = access;
    this.#observer = options.observer ?? (() => {});
    const { pluginTimeoutMs = 30_000 } = options;
    this.#credentials = new CredentialReader(access, pluginTimeoutMs, this.#observer);
    this.#limiter = new RateLimiter(options.qps || 5, options.burst || 10);
    this.#contentTypes = new ContentTypes(
      options.contentTypes ?? onlyJSON,
      options.onProtobufRefused,
    );
    this.#userAgent = options.userAgent;
    this.#way = access.proxy === undefined ? '' : ` through the proxy ${proxyText(access.proxy)}`;
    const advice = ownServiceAdvice(access.server, options.environment ?? process.env);
    this.#advice = advice === undefined ? '' : `; ${advice}`;
  }

  /**
   * Rejects with a one-line Error if the configuration cannot work. It does not check what may work
   * later: the server, its name, and the output of a plugin.
   */
  static async open(options: ClientOptions): Promise<ApiClient> {
    const client = new ApiClient(readAccess(options), options);
    await client.#credentials.checkFiles();
    return client;
  }

  get server(): string {
    return this.#access.server.origin;
  }

  /**
   * Rejects with an ApiError if the server answers with an error, with a one-line Error if it does
   * not answer (a StreamError if it may have received the request), and when `signal` aborts, which
   * also ends a running body.
   */
  async get(path: string, query: Query, signal: AbortSignal): Promise<ApiResponse> {
    const types = this.#contentTypes;
    // For lists, if they are long, and for streaming lists (KEP-3157, Kubernetes 1.37). The server
    // compresses no other watches, and proxies could delay their events.
    const isList = query.watch !== 'true' || query.sendInitialEvents === 'true';
    const compresses = isList && this.#access.compression === 'gzip';
    const encoding = compresses ? { 'accept-encoding': 'gzip' } : {};
    const url = `${path}?${new URLSearchParams(query)}`;
    const isWatch = query.watch === 'true';
    const message = { method: 'GET', path: url, headers: encoding, isWatch } as const;
    for (;;) {
      const { accept } = types;
      try {
        const { headers, body } = await this.#exchange(message, accept, signal);
        const read = inflated(headers, body);
        const form = types.formOf(headers['content-type']);
        return { form, body: isWatch ? read : this.#counted('GET', read) };
      } catch (error) {
        if (!(error instanceof ApiError) || !types.refuses(accept, error.status)) throw error;
      }
    }
  }

  /** The body of a request for JSON. Rejects like `get`. */
  async getJSON(path: string, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    const { body } = await this.#exchange({ method: 'GET', path }, jsonType, signal);
    return this.#counted('GET', body);
  }

  /** Creates `object`, whatever becomes of it. Rejects like `get`. */
  async send(path: string, object: unknown, signal: AbortSignal): Promise<void> {
    // The returned object is not needed, but must be read to free the connection.
    for await (const _ of await this.create(path, object, signal)) signal.throwIfAborted();
  }

  /** Creates `object`, and resolves to the body with what became of it. Rejects like `get`. */
  async create(path: string, object: unknown, signal: AbortSignal): Promise<AsyncIterable<Buffer>> {
    const headers = { 'content-type': jsonType };
    const message = { method: 'POST', path, headers, body: JSON.stringify(object) } as const;
    return this.#counted('POST', (await this.#exchange(message, jsonType, signal)).body);
  }

  /** Reports the size of a body that was read to its end. */
  async *#counted(method: Message['method'], body: Readable): AsyncGenerator<Buffer> {
    let bytes = 0;
    for await (const part of body as AsyncIterable<Buffer>) {
      bytes += part.length;
      yield part;
    }
    this.#observer({ kind: 'received', method, host: this.#access.server.host, bytes });
  }

  async #exchange(message: Message, accept: string, signal: AbortSignal): Promise<HttpResponse> {
    await this.#limiter.take(signal);
    const { secureContext, headers } = await abortable(this.#credentials.read(), signal);
    const response = await this.#request(this.#transport(secureContext), {
      ...message,
      headers: { ...headers, ...message.headers, accept, 'user-agent': this.#userAgent },
      signal,
    });
    // A body that is stopped before it is read would throw otherwise.
    response.body.on('error', () => {});
    if (response.statusCode === 200 || response.statusCode === 201) return response;
    if (response.statusCode === 401) this.#credentials.invalidate();
    throw await readError(response);
  }

  close(): void {
    this.#credentials.close();
    for (const transport of this.#transports) transport.destroy();
  }

  async #request(
    transport: Transport,
    { isWatch, ...message }: HttpRequest & Pick<Message, 'isWatch'>,
  ): Promise<HttpResponse> {
    const { host, origin, pathname } = this.#access.server;
    const { method, signal } = message;
    const prefix = pathname.replace(/\/$/, '');
    const startedMs = performance.now();
    const over = (status: number | undefined): void => {
      const durationMs = performance.now() - startedMs;
      const sentBytes = isWatch === true ? undefined : Buffer.byteLength(message.body ?? '');
      this.#observer({ kind: 'exchange', method, host, status, durationMs, sentBytes });
    };
    try {
      const response = await transport.request({ ...message, path: `${prefix}${message.path}` });
      over(response.statusCode);
      return response;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      over(undefined);
      this.#contentTypes.lost();
      const words = `cannot reach ${origin}${this.#way}: ${describeNetworkError(error)}`;
      if (isUnreached(error)) throw new Error(`${words}${this.#advice}`);
      throw new StreamError('cut', words);
    }
  }

  /** Each set of certificates has its own connections. Old ones end with their last request. */
  #transport(secureContext: SecureContext): Transport {
    if (this.#current?.secureContext === secureContext) return this.#current.transport;
    const old = this.#current?.transport;
    const transport = createTransport(this.#access, secureContext);
    this.#transports.add(transport);
    this.#current = { secureContext, transport };
    if (old !== undefined) void old.retire().finally(() => this.#transports.delete(old));
    return transport;
  }
}

interface Message extends Pick<HttpRequest, 'method' | 'path' | 'body'> {
  readonly headers?: Readonly<Record<string, string>>;
  readonly isWatch?: boolean;
}

/** Settles like the promise, but rejects when `signal` aborts. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    const settled = (): void => signal.removeEventListener('abort', abort);
    promise.finally(settled).then(resolve, reject);
  });
}

/** The decompressed body. */
function inflated(headers: HttpResponse['headers'], body: Readable): Readable {
  if (headers['content-encoding'] !== 'gzip') return body;
  // The reader of the body receives errors.
  return pipeline(body, createGunzip(), () => {});
}

async function readError(response: HttpResponse) {
  const body = await readBody(inflated(response.headers, response.body), errorBodyBytesMax).catch(
    (error: unknown) => {
      if (error instanceof BodyTooLarge) return Buffer.alloc(0);
      throw error;
    },
  );
  const text = body.toString('utf8');
  const [line = ''] = text.trim().split('\n');
  const status = response.statusCode;
  return statusError(readStatus(body) ?? tryJSON(text), {
    status,
    words: line === '' ? `HTTP status ${status}` : line.slice(0, 200),
    retryAfterMs: retryAfterMs(response.headers['retry-after']),
  });
}

/** Seconds or a date, in milliseconds from now. */
function retryAfterMs(header: string | string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined;
  const ms = /^[0-9]+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

/** The environment variable of pods with the address of Service `kubernetes`. */
const pointer = 'KUBERNETES_PORT';

const serviceName = /^kubernetes(\.default(\.svc(\..+)?)?)?$/;

/**
 * The advice if this server cannot be reached and its address is that of its own Service, which
 * works only after this program has programmed it; undefined = it has another address.
 */
export function ownServiceAdvice(
  server: URL,
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const address = URL.parse(environment[pointer] ?? '')?.hostname;
  const { hostname } = server;
  if (hostname !== address && !serviceName.test(hostname)) return undefined;
  return (
    `${hostname} is Service kubernetes, which works only once a service proxy runs on this node: ` +
    "give the API server's own address, by KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, " +
    'by the kubeconfig or by --master'
  );
}

/**
 * The client-side limit of kube-api-qps and kube-api-burst: a bucket of `burst` tokens that is
 * refilled at `qps` per second. A qps below zero means no limit, as in client-go.
 */
export class RateLimiter {
  readonly #qps: number;
  readonly #burst: number;
  /** May be negative: tokens that waiting requests have taken in advance. */
  #tokens: number;
  #filledAtMs = performance.now();

  constructor(qps: number, burst: number) {
    this.#qps = qps;
    this.#burst = Math.max(1, burst);
    this.#tokens = this.#burst;
  }

  /** Resolves when a request may be sent. Rejects when `signal` aborts. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.#qps < 0) return;
    const nowMs = performance.now();
    const filled = ((nowMs - this.#filledAtMs) / 1000) * this.#qps;
    this.#tokens = Math.min(this.#burst, this.#tokens + filled) - 1;
    this.#filledAtMs = nowMs;
    if (this.#tokens < 0) await sleep((-this.#tokens / this.#qps) * 1000, undefined, { signal });
  }
}
