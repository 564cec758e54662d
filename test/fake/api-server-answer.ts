/** How the fake API server answers, or fails to answer. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { AnswerForm, Bytes } from './api-server-form.ts';
import { statuses } from './api-server-recorded.ts';

/** A fault of one request. */
export type Fault =
  | { readonly kind: 'status'; readonly status: number; readonly retryAfterSeconds?: number }
  /** The connection is closed. */
  | { readonly kind: 'drop' }
  /** Nothing is ever answered. */
  | { readonly kind: 'stall' }
  /** The answer begins only after this time. */
  | { readonly kind: 'late'; readonly ms: number }
  /** The answer begins only after the test says so. */
  | { readonly kind: 'held'; readonly released: Promise<void> }
  /** The body ends inside a UTF-8 character, or in the middle, and the connection is closed. */
  | { readonly kind: 'cut' }
  /** The body is cut as by `cut`, but the response ends as if it were complete. */
  | { readonly kind: 'end' }
  /** Status 200 and this body, which has nothing to do with Kubernetes or is an ERROR event. */
  | { readonly kind: 'foreign'; readonly body: string }
  /** The same, and then `more` again and again. */
  | { readonly kind: 'endless'; readonly body: string; readonly more: string };

/** The response to a request, and the form that the request asks for. */
export interface Answer {
  readonly response: ServerResponse;
  readonly form: AnswerForm;
  /** The client can read what is compressed. */
  readonly gzip?: boolean;
}

/** Real servers compress what is longer, except watches. */
const gzipBytesMin = 128 * 1024;

export function refuse(
  { response, form }: Answer,
  fault: Extract<Fault, { kind: 'status' }>,
): void {
  const { status, retryAfterSeconds } = fault;
  response.writeHead(status, {
    'content-type': form.type,
    ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
  });
  const message = 'the fake was told to fail';
  const plain = { kind: 'Status', apiVersion: 'v1', status: 'Failure', message, code: status };
  response.end(form.status(statuses.get(status) ?? JSON.stringify(plain)));
}

/** Whether the fault was the whole answer. */
export async function failed(fault: Fault, answer: Answer): Promise<boolean> {
  const { response } = answer;
  switch (fault.kind) {
    case 'status':
      refuse(answer, fault);
      return true;
    case 'drop':
      response.socket?.destroy();
      return true;
    case 'stall':
      return true;
    case 'foreign':
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end(fault.body);
      return true;
    case 'endless': {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.write(fault.body);
      const timer = setInterval(() => response.write(fault.more), 5);
      response.once('close', () => clearInterval(timer));
      return true;
    }
    case 'late':
    case 'held':
    case 'cut':
    case 'end':
      return false;
  }
}

/** Sends a body in pieces, or compressed where that is asked for and it is long; says which. */
export async function send(
  { response, form, gzip = false }: Answer,
  body: Iterable<Bytes>,
): Promise<'plain' | 'gzip'> {
  const headers = { 'content-type': form.type };
  const whole = gzip ? joined(body) : undefined;
  if (whole !== undefined && whole.length > gzipBytesMin) {
    response.writeHead(200, { ...headers, 'content-encoding': 'gzip' });
    response.end(gzipSync(whole));
    return 'gzip';
  }
  response.writeHead(200, headers);
  const pieces = whole === undefined ? body : [whole];
  for (const piece of pieces) if (!response.write(piece)) await once(response, 'drain');
  response.end();
  return 'plain';
}

function joined(body: Iterable<Bytes>): Buffer {
  return Buffer.concat([...body].map((piece) => Buffer.from(piece as Buffer)));
}

export function sendPart(
  { response, form }: Answer,
  body: Iterable<Bytes>,
  how: 'cut' | 'end',
): void {
  response.writeHead(200, { 'content-type': form.type });
  const bytes = joined(body);
  const inCharacter = bytes.lastIndexOf(0xc3) + 1;
  const part = bytes.subarray(0, inCharacter > 0 ? inCharacter : bytes.length / 2);
  if (how === 'end') response.end(part);
  else response.write(part, () => response.destroy());
}

/**
 * Compresses what is written to the response from now on as kube-apiserver does with lists that are
 * streams (WatchListCompression): what is flushed together is one member of a gzip file.
 */
export function compressWrites(response: ServerResponse): void {
  response.setHeader('content-encoding', 'gzip');
  const write = response.write.bind(response) as (bytes: Buffer, done?: () => void) => boolean;
  const end = response.end.bind(response) as () => ServerResponse;
  let pieces: Bytes[] = [];
  const flush = (done?: () => void): boolean => {
    if (pieces.length === 0 || response.destroyed) return true;
    const member = gzipSync(joined(pieces));
    pieces = [];
    return write(member, done);
  };
  response.write = ((piece: Bytes, done?: () => void): boolean => {
    pieces.push(piece);
    if (done !== undefined) return flush(done);
    if (pieces.length === 1) setImmediate(() => response.writableEnded || flush());
    return !response.writableNeedDrain;
  }) as ServerResponse['write'];
  response.end = ((piece?: Bytes): ServerResponse => {
    if (piece !== undefined) pieces.push(piece);
    flush();
    return end();
  }) as ServerResponse['end'];
}
