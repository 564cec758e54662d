import { isText, objectOf } from '../decode/field-reader.ts';

/** The API server answered with an error (HTTP, or an ERROR event of a watch). */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status, or `code` of the Status object. */
  readonly status: number;
  /** How long the server asks us to wait, within bounds; undefined if it does not say. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, words: string, retryAfterMs: number | undefined) {
    super(words);
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** How long the server asks us to wait. */
export function retryAfterMs(error: unknown): number {
  return error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
}

/** The server does not know the resource, or does not permit reading it. */
export function isAbsence(error: unknown): error is ApiError {
  return error instanceof ApiError && [403, 404].includes(error.status);
}

/** A stream that ended abnormally. */
export class StreamError extends Error {
  override readonly name = 'StreamError';
  /**
   * - `silent`: nothing arrived for too long.
   * - `cut`: it ended inside an object.
   * - `garbage`: it contains unreadable data, so it is not known what was missed.
   */
  readonly kind: 'silent' | 'cut' | 'garbage';

  constructor(kind: StreamError['kind'], words: string) {
    super(words);
    this.kind = kind;
  }
}

/** The longest time to wait, even if the server asks for more. */
const retryAfterMaxMs = 60_000;

/** Nothing arrived for too long. */
export function isSilence(error: unknown): boolean {
  return error instanceof StreamError && error.kind === 'silent';
}

/** Whether unreadable data arrived. */
export function isGarbage(error: unknown): boolean {
  return error instanceof StreamError && error.kind === 'garbage';
}

/** The most characters of a server's message that are kept. */
const messageMax = 1000;

/** From a `Status` object of the API, in a body or in an ERROR event. */
export function statusError(
  raw: unknown,
  fallback: { status: number; words: string; retryAfterMs?: number | undefined },
): ApiError {
  const status = objectOf(raw);
  const seconds = objectOf(status.details).retryAfterSeconds;
  const askedMs =
    fallback.retryAfterMs ?? (typeof seconds === 'number' ? seconds * 1000 : undefined);
  return new ApiError(
    typeof status.code === 'number' ? status.code : fallback.status,
    isText(status.message) ? status.message.slice(0, messageMax) : fallback.words,
    askedMs === undefined ? undefined : Math.min(askedMs, retryAfterMaxMs),
  );
}

/** The innermost cause of a request without an answer, in one line. */
export function describeNetworkError(error: unknown): string {
  const cause = innermost(error);
  if (!(cause instanceof Error)) return String(cause);
  const code = codeOf(cause);
  // Node also uses this code for a connection that the server closed, but then no call has failed.
  if (code === 'ECONNRESET' && !('syscall' in cause)) return 'the server closed the connection';
  const meaning = meanings[code];
  const [words = ''] = cause.message.split('\n');
  if (meaning !== undefined) return `${meaning} (${code})`;
  return code === '' || words.includes(code) ? words : `${words} (${code})`;
}

/** Whether the request cannot have reached a server. */
export function isUnreached(error: unknown): boolean {
  const code = codeOf(innermost(error));
  return code in meanings && !answerless.has(code);
}

/** Of several addresses that were tried, the error of the first one. */
function innermost(error: unknown): unknown {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return innermost(error.errors[0]);
  }
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error ? innermost(cause) : error;
}

/** Empty if it has none. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : '';
}

/** Codes after which the server may have received the request. */
const answerless: ReadonlySet<string> = new Set(['ECONNRESET', 'UND_ERR_SOCKET']);

const meanings: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name cannot be resolved now',
  ETIMEDOUT: 'timed out',
  UND_ERR_CONNECT_TIMEOUT: 'timed out while connecting',
  UND_ERR_SOCKET: 'the server closed the connection',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not signed by the configured authority',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not signed by the configured authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not signed by the configured authority',
  CERT_HAS_EXPIRED: 'its certificate has expired',
};
