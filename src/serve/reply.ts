/** Requests to the HTTP servers, and their answers. */

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Several texts follow one another: to join them would copy them once more. */
  readonly body: string | Uint8Array | readonly string[];
}

export interface TextReply extends Reply {
  readonly body: string;
}

export function bodyBytes({ body }: Pick<Reply, 'body'>): Uint8Array {
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === 'string' ? body : body.join(''));
}

export interface Asked {
  readonly method: string;
  readonly query: URLSearchParams;
  /** The address of the client; empty = already disconnected. */
  readonly peer: string;
  /** The Host header; empty = none. */
  readonly host: string;
  /** The Accept header; empty = none. */
  readonly accept: string;
  /** The Accept-Encoding header; empty = none. */
  readonly acceptEncoding: string;
  /** The Authorization header; empty = none. */
  readonly authorization: string;
  /** The body of the request; only the first `bodyBytesKept` are there. */
  readonly body: string;
}

export type Route = (asked: Asked) => Reply | Promise<Reply>;

/** Routes by path. Each answers any method, unless it checks the method. Other paths get 404. */
export type Routes = Readonly<Record<string, Route>>;

export const jsonHeaders = {
  'Content-Type': 'application/json',
  'X-Content-Type-Options': 'nosniff',
} as const;

export const textHeaders = {
  'Content-Type': 'text/plain; charset=utf-8',
  'X-Content-Type-Options': 'nosniff',
} as const;

export function textReply(status: number, body: string): TextReply {
  return { status, headers: textHeaders, body };
}

export const notFound = textReply(404, '404 page not found\n');

/** Whether a client accepts gzip: gzip is listed, and its weight is not 0. */
export function acceptsGzip(acceptEncoding: string): boolean {
  return acceptEncoding.split(',').some((one) => {
    const [coding = '', weight = ''] = one.split(';').map((part) => part.trim().toLowerCase());
    return coding === 'gzip' && !/^q=0(\.0*)?$/.test(weight);
  });
}
