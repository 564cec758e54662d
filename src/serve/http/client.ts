/** One connection. The next request is read only after the previous one was answered. */
import type { Socket } from 'node:net';
import { hostBlock } from '../../net/block.ts';
import { bodyBytes, type Reply } from '../reply.ts';
import type { Member } from './connection-limit.ts';
import { Payload, type Payloads } from './payloads.ts';
import { type HttpRequest, RequestReader } from './request-reader.ts';

/** How long a connection may be silent between two requests. */
const idleMs = 5000;
/** How long a client may take to send a request. */
const receiveMs = 10_000;
/** How long a client may take to read an answer. */
const sendMs = 60_000;
/** How many bytes may follow a request before it is answered. */
const aheadBytesMax = 16 * 1024;
/** How long a client may continue to send after its last answer. */
const lingerMs = 1000;
const lingerBytesMax = 128 * 1024;
/** Smaller chunks are freed by the garbage collector. */
const releasedBytesMin = 16 * 1024;

interface ClientOptions {
  readonly socket: Socket;
  /** Bytes of requests that wait, of all connections. */
  readonly held: Budget;
  readonly payloads: Payloads;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  readonly wallMs: () => number;
  /** A request is complete. The next one is not read before `reply`. */
  readonly asked: (client: Client) => void;
  readonly closed: (client: Client) => void;
}

type State =
  /** Waits for a request, or for the rest of one. */
  | 'reading'
  /** Has a request without an answer. */
  | 'asking'
  | 'sending'
  /** Is closed when the peer closes, or soon. */
  | 'closing'
  | 'closed';

export class Client implements Member {
  readonly peer: string;
  /** The address from the socket. */
  readonly address: string;
  readonly #options: ClientOptions;
  readonly #reader = new RequestReader();
  #state: State = 'reading';
  #request: HttpRequest | undefined;
  /** Bytes that followed the request that is being answered. */
  #rest: Buffer | undefined;
  #heldBytes = 0;
  #payload: Payload | undefined;
  /**
   * The answer under way is the last; the client has sent too much, and is not read; bytes that
   * came after the last answer.
   */
  readonly #end = { isLast: false, isAhead: false, lingeredBytes: 0 };
  #deadlineMs: number;

  constructor(options: ClientOptions) {
    this.#options = options;
    const { now, socket } = options;
    this.address = socket.remoteAddress ?? '';
    this.peer = hostBlock(this.address);
    this.#deadlineMs = now() + receiveMs;
    socket.on('data', (piece: Buffer) => this.#data(piece));
    socket.on('end', () => this.#ended());
    socket.on('error', () => this.destroy());
    socket.on('close', () => this.destroy());
  }

  /** The request that waits for an answer: see `isAsking`. */
  get request(): HttpRequest {
    return this.#request!;
  }

  get isAsking(): boolean {
    return this.#state === 'asking';
  }

  /** How long the request may wait for its answer. */
  await(ms: number): void {
    this.#deadlineMs = this.#options.now() + ms;
  }

  reply(reply: Reply, shared?: Payload): void {
    if (this.#state !== 'asking') return;
    const { keepAlive, method } = this.request;
    this.#end.isLast ||= !keepAlive;
    this.#send(reply, shared ?? new Payload(bodyBytes(reply)), method === 'HEAD');
  }

  /** Closes a connection that takes too long. A request without an answer gets `unanswered`. */
  check(nowMs: number, unanswered: Reply): void {
    if (nowMs < this.#deadlineMs) return;
    if (this.#state === 'asking') {
      this.#end.isLast = true;
      this.reply(unanswered);
    } else if (this.#state === 'reading' && this.#reader.begun) {
      this.#refuse(408, 'the request took too long');
    } else {
      this.destroy();
    }
  }

  destroy(): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#request = undefined;
    this.#rest = undefined;
    this.#hold(0);
    this.#sent();
    this.#options.socket.destroy();
    this.#options.closed(this);
  }

  #data(piece: Buffer): void {
    if (this.#state === 'reading') {
      this.#read(piece);
      release(piece);
    } else if (this.#state === 'closing') {
      this.#end.lingeredBytes += piece.length;
      release(piece);
      if (this.#end.lingeredBytes > lingerBytesMax) this.destroy();
    } else {
      // The socket is not read in these states; if it cannot be paused, this is the last chunk.
      this.#end.isLast = true;
    }
  }

  #read(piece: Buffer): void {
    const isFirst = !this.#reader.begun;
    const progress = this.#reader.push(piece);
    switch (progress.kind) {
      case 'refused':
        this.#refuse(progress.status, progress.reason);
        return;
      case 'more':
        if (!this.#hold(this.#reader.heldBytes)) {
          this.#refuse(503, 'too many requests are incomplete');
          return;
        }
        if (isFirst) this.#deadlineMs = this.#options.now() + receiveMs;
        if (progress.continues) this.#options.socket.write('HTTP/1.1 100 Continue\r\n\r\n');
        return;
      case 'request':
        this.#setReading(false);
        this.#state = 'asking';
        this.#request = progress.request;
        this.#keep(piece.subarray(progress.used));
        this.#options.asked(this);
        return;
    }
  }

  /**
   * Keeps a copy of what followed the request. A client that sends too much gets this answer, and
   * nothing more is read from it.
   */
  #keep(rest: Buffer): void {
    if (rest.length === 0) this.#hold(0);
    else if (rest.length <= aheadBytesMax && this.#hold(rest.length))
      this.#rest = Buffer.from(rest);
    else {
      this.#hold(0);
      this.#end.isLast = true;
      this.#end.isAhead = true;
    }
  }

  /** Sets the bytes that the connection uses. False: the budget is exhausted; nothing changes. */
  #hold(bytes: number): boolean {
    const isTaken = this.#options.held.take(bytes - this.#heldBytes);
    if (isTaken) this.#heldBytes = bytes;
    return isTaken;
  }

  #refuse(status: number, reason: string): void {
    this.#hold(0);
    this.#end.isLast = true;
    const headers = { 'Content-Type': 'text/plain; charset=utf-8' };
    const reply = { status, headers, body: `${reason}\n` };
    this.#send(reply, new Payload(bodyBytes(reply)), false);
  }

  #send({ headers, status }: Reply, payload: Payload, isHead: boolean): void {
    const { now, payloads, socket, wallMs } = this.#options;
    this.#state = 'sending';
    this.#deadlineMs = now() + sendMs;
    const keepAliveSeconds = this.#end.isLast ? undefined : idleMs / 1000;
    const bodyBytes = payload.bytes.length;
    const head = replyHead({ status, headers, bodyBytes, keepAliveSeconds, wallMs: wallMs() });
    this.#payload = payload;
    payloads.sending(payload, this);
    if (isHead || bodyBytes === 0) {
      socket.write(head, 'latin1', () => this.#flushed());
      return;
    }
    socket.cork();
    socket.write(head, 'latin1');
    socket.write(payload.bytes, () => this.#flushed());
    socket.uncork();
  }

  #sent(): void {
    if (this.#payload === undefined) return;
    this.#options.payloads.done(this.#payload, this);
    this.#payload = undefined;
  }

  #flushed(): void {
    if (this.#state !== 'sending') return;
    this.#sent();
    this.#request = undefined;
    const { now, socket } = this.#options;
    if (this.#end.isLast) {
      this.#rest = undefined;
      this.#hold(0);
      this.#state = 'closing';
      this.#deadlineMs = now() + lingerMs;
      socket.end();
      // Unread bytes would make the kernel reset the connection before the client has read the
      // answer.
      if (!this.#end.isAhead) this.#setReading(true);
      return;
    }
    this.#state = 'reading';
    this.#deadlineMs = now() + idleMs;
    const rest = this.#rest;
    this.#rest = undefined;
    if (rest !== undefined) this.#read(rest);
    if (this.#state === 'reading') this.#setReading(true);
  }

  get #isReading(): boolean {
    return this.#state === 'reading' || this.#state === 'closing';
  }

  #ended(): void {
    // A client may close its side and still wait for the answer.
    if (this.#isReading) this.destroy();
    else this.#end.isLast = true;
  }

  /** What arrives while the socket is not read stays in the kernel. */
  #setReading(isReading: boolean): void {
    const { socket } = this.#options;
    if (isReading) {
      socket.resume();
      return;
    }
    socket.pause();
    // `pause` alone would read another 64 KiB of each connection.
    const handle = (socket as { _handle?: Handle | null })._handle;
    if (handle?.readStop === undefined) return;
    handle.reading = false;
    handle.readStop();
  }
}

/** Internals of Node's sockets; `reading` is Node's own flag. */
interface Handle {
  reading?: boolean;
  readStop?(): number;
}

/**
 * Frees memory of a chunk that was read. Chunks have up to 64 KiB, and V8 lets tens of megabytes of
 * them wait for the garbage collector.
 */
function release(piece: Buffer): void {
  const { buffer } = piece;
  const isAlone = piece.length === buffer.byteLength;
  if (isAlone && piece.length >= releasedBytesMin && buffer instanceof ArrayBuffer) {
    buffer.transfer(0);
  }
}

/** Reason phrases of the statuses in use. */
const statusNames: Readonly<Record<number, string>> = {
  200: 'OK',
  302: 'Found',
  400: 'Bad Request',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  413: 'Content Too Large',
  417: 'Expectation Failed',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
  505: 'HTTP Version Not Supported',
};

interface HeadOptions {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bodyBytes: number;
  /** For how many seconds the connection waits for another request; undefined: it is closed. */
  readonly keepAliveSeconds: number | undefined;
  /** Milliseconds since the epoch. */
  readonly wallMs: number;
}

/** The head of an HTTP/1.1 answer. */
function replyHead(options: HeadOptions): string {
  const { bodyBytes, headers, keepAliveSeconds: seconds, status, wallMs } = options;
  const lines = [
    `HTTP/1.1 ${status} ${statusNames[status] ?? 'Unknown'}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${oneLine(value)}`),
    `Date: ${new Date(wallMs).toUTCString()}`,
    ...(seconds === undefined
      ? ['Connection: close']
      : ['Connection: keep-alive', `Keep-Alive: timeout=${seconds}`]),
    `Content-Length: ${bodyBytes}`,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

function oneLine(value: string): string {
  return value.replace(/[\r\n\0]/g, ' ');
}

/** Bounds the bytes that all connections use together. */
export class Budget {
  readonly max: number;
  #used = 0;

  constructor(max: number) {
    this.max = max;
  }

  get used(): number {
    return this.#used;
  }

  /** Returns false, and changes nothing, if the budget does not suffice. */
  take(bytes: number): boolean {
    if (bytes > 0 && this.#used + bytes > this.max) return false;
    this.#used += bytes;
    return true;
  }
}
