/**
 * Reads HTTP/1.1 requests one after the other from the bytes of a connection (RFC 9112). It is
 * strict: it refuses what another reader could understand differently. All sizes are bounded.
 */

/** The most bytes of a request line with its headers. */
export const headBytesMax = 16 * 1024;
/** The most bytes of a body. Only its first bytes are kept. */
export const bodyBytesMax = 64 * 1024;
export const bodyBytesKept = 4096;
/** The most bytes of a chunked body with its sizes and trailers. */
const chunkedBytesMax = 2 * bodyBytesMax;
/** The most bytes of a line with a chunk size, or of a trailer. */
const chunkLineBytesMax = 256;

export interface HttpRequest {
  readonly method: string;
  /** The request target: a path and a query. */
  readonly target: string;
  /** Headers; empty = none. Several headers of one name are joined. */
  readonly host: string;
  readonly accept: string;
  readonly acceptEncoding: string;
  readonly authorization: string;
  /** The client may send another request over this connection. */
  readonly keepAlive: boolean;
  /** The first bytes of the body. */
  readonly body: string;
}

type Progress =
  /** `continues`: the client waits for "100 Continue" before it sends the body. */
  | { readonly kind: 'more'; readonly continues: boolean }
  /** `used`: the bytes of the last chunk that belong to the request. */
  | { readonly kind: 'request'; readonly request: HttpRequest; readonly used: number }
  /** No further bytes can be understood. */
  | { readonly kind: 'refused'; readonly status: number; readonly reason: string };

type Head = Omit<HttpRequest, 'body'> & {
  readonly body: 'chunked' | number;
  readonly continues: boolean;
};

class Refused extends Error {
  readonly status: number;

  constructor(status: number, reason: string) {
    super(reason);
    this.status = status;
  }
}

const more: Progress = { kind: 'more', continues: false };
const endOfHead = Buffer.from('\r\n\r\n');
const empty = Buffer.alloc(0);
const [cr, lf] = [13, 10];

export class RequestReader {
  /** Bytes of an incomplete head. */
  #held: Buffer = empty;
  #head: Head | undefined;
  #body: BodyReader | undefined;

  /** Bytes that are kept until more arrive. */
  get heldBytes(): number {
    return this.#held.length + (this.#body?.keptBytes ?? 0);
  }

  /** Whether a part of a request has arrived. */
  get begun(): boolean {
    return this.#held.length > 0 || this.#head !== undefined;
  }

  push(piece: Buffer): Progress {
    try {
      return this.#push(piece);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { kind: 'refused', status: error.status, reason: error.message };
    }
  }

  #push(piece: Buffer): Progress {
    if (this.#body !== undefined) return this.#pushBody(piece, 0);
    const before = this.#held.length;
    const bytes = before === 0 ? piece : Buffer.concat([this.#held, piece]);
    // An empty line before the request is left out, as RFC 9112, section 2.2 advises.
    const start = bytes[0] === cr && bytes[1] === lf ? 2 : 0;
    checkStart(bytes, start);
    const end = bytes.indexOf(endOfHead, Math.max(start, before - endOfHead.length + 1));
    const length = end < 0 ? bytes.length : end + endOfHead.length;
    if (length > headBytesMax) throw new Refused(431, 'the headers are too large');
    if (end < 0) {
      // A copy, because the piece is a view of a larger buffer.
      this.#held = before === 0 ? Buffer.from(bytes) : bytes;
      return more;
    }
    this.#held = empty;
    this.#head = readHead(bytes.toString('latin1', start, end));
    this.#body = new BodyReader(this.#head.body);
    const progress = this.#pushBody(piece, length - before);
    const { continues } = this.#head ?? { continues: false };
    return progress.kind === 'more' ? { kind: 'more', continues } : progress;
  }

  #pushBody(piece: Buffer, from: number): Progress {
    const body = this.#body!;
    const used = body.push(piece, from);
    if (!body.isComplete) return more;
    const { body: _, continues: __, ...head } = this.#head!;
    this.#head = undefined;
    this.#body = undefined;
    return { kind: 'request', request: { ...head, body: body.text }, used };
  }
}

/** Refuses at the first byte what cannot begin a request, such as TLS. */
function checkStart(bytes: Buffer, start: number): void {
  const first = bytes[start];
  if (first === undefined || (first === cr && start === 0 && bytes.length === 1)) return;
  if (!isTokenByte(first)) throw new Refused(400, 'this is not HTTP');
}

const tokenPattern = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

function isTokenByte(byte: number): boolean {
  return tokenPattern.test(String.fromCharCode(byte));
}

/** `text` is everything before the empty line; each character is one byte. */
function readHead(text: string): Head {
  const [first = '', ...lines] = text.split('\r\n');
  const line = /^(\S{1,32}) ([\x21-\x7e]+) HTTP\/(\d)\.(\d)$/.exec(first);
  if (line === null) throw new Refused(400, 'the request line is malformed');
  const [, method = '', target = '', major, minor] = line;
  if (!tokenPattern.test(method)) throw new Refused(400, 'the method is malformed');
  if (major !== '1' || (minor !== '0' && minor !== '1')) {
    throw new Refused(505, 'HTTP/1.0 and HTTP/1.1 are understood');
  }
  const headers = readHeaders(lines);
  const isNew = minor === '1';
  const hosts = headers.get('host') ?? [];
  if (hosts.length > 1 || (isNew && hosts.length === 0)) {
    throw new Refused(400, 'there must be one Host header');
  }
  const joined = (name: string): string => headers.get(name)?.join(', ') ?? '';
  const connection = listOf(joined('connection'));
  const keepAlive = isNew ? !connection.includes('close') : connection.includes('keep-alive');
  const expected = joined('expect').toLowerCase();
  if (expected !== '' && expected !== '100-continue') {
    throw new Refused(417, 'this expectation is not understood');
  }
  return {
    method,
    target,
    host: hosts[0] ?? '',
    accept: joined('accept'),
    acceptEncoding: joined('accept-encoding'),
    authorization: joined('authorization'),
    keepAlive,
    body: bodyOf(headers, isNew),
    continues: isNew && expected !== '',
  };
}

function readHeaders(lines: readonly string[]): Map<string, string[]> {
  const headers = new Map<string, string[]>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon)).toLowerCase();
    const value = trimmed(line, colon + 1);
    // A line that continues the value of the previous header (obs-fold) has no name.
    if (!tokenPattern.test(name) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw new Refused(400, 'a header is malformed');
    }
    const known = headers.get(name);
    if (known === undefined) headers.set(name, [value]);
    else known.push(value);
  }
  return headers;
}

/** Without spaces and tabs at both ends. */
function trimmed(line: string, from: number): string {
  const isBlank = (at: number): boolean => line[at] === ' ' || line[at] === '\t';
  let [start, end] = [from, line.length];
  while (start < end && isBlank(start)) start += 1;
  while (end > start && isBlank(end - 1)) end -= 1;
  return line.slice(start, end);
}

function listOf(value: string): string[] {
  return value.split(',').map((one) => one.trim().toLowerCase());
}

function bodyOf(headers: ReadonlyMap<string, readonly string[]>, isNew: boolean): Head['body'] {
  const lengths = headers.get('content-length') ?? [];
  const codings = headers.get('transfer-encoding') ?? [];
  if (codings.length > 0) {
    // Both headers together, or Transfer-Encoding in HTTP/1.0, allow request smuggling.
    if (lengths.length > 0 || !isNew) throw new Refused(400, 'the length of the body is unclear');
    if (codings.length > 1 || codings[0]!.toLowerCase() !== 'chunked') {
      throw new Refused(501, 'this transfer coding is not understood');
    }
    return 'chunked';
  }
  const [length = '0'] = lengths;
  if (lengths.length > 1 || !/^\d{1,15}$/.test(length)) {
    throw new Refused(400, 'the length of the body is unclear');
  }
  if (Number(length) > bodyBytesMax) throw new Refused(413, 'the body is too large');
  return Number(length);
}

/** Reads a body, and keeps its beginning. */
class BodyReader {
  /** What follows: this number of data bytes, or a line. */
  #next: 'size' | 'end-of-chunk' | 'trailer' | 'nothing' | number;
  readonly #isChunked: boolean;
  #line = '';
  #dataBytes = 0;
  #rawBytes = 0;
  #kept: Buffer = empty;

  constructor(length: 'chunked' | number) {
    this.#isChunked = length === 'chunked';
    this.#next = length === 'chunked' ? 'size' : length || 'nothing';
  }

  get isComplete(): boolean {
    return this.#next === 'nothing';
  }

  get keptBytes(): number {
    return this.#kept.length + this.#line.length;
  }

  get text(): string {
    return this.#kept.toString('utf8');
  }

  /** Returns the offset in the chunk at which the body ends. */
  push(piece: Buffer, from: number): number {
    let at = from;
    while (at < piece.length && this.#next !== 'nothing') {
      const end = typeof this.#next === 'number' ? this.#data(piece, at) : this.#text(piece, at);
      this.#rawBytes += end - at;
      if (this.#isChunked && this.#rawBytes > chunkedBytesMax) {
        throw new Refused(413, 'the body is too large');
      }
      at = end;
    }
    return at;
  }

  #data(piece: Buffer, at: number): number {
    const left = this.#next as number;
    const end = Math.min(piece.length, at + left);
    const room = bodyBytesKept - this.#kept.length;
    if (room > 0) {
      this.#kept = Buffer.concat([this.#kept, piece.subarray(at, Math.min(end, at + room))]);
    }
    if (end - at < left) this.#next = left - (end - at);
    else this.#next = this.#isChunked ? 'end-of-chunk' : 'nothing';
    return end;
  }

  /** Reads a line, or a part of it. */
  #text(piece: Buffer, at: number): number {
    const found = piece.indexOf(lf, at);
    const end = found < 0 ? piece.length : found + 1;
    if (this.#line.length + end - at > chunkLineBytesMax) {
      throw new Refused(400, 'a chunk is malformed');
    }
    this.#line += piece.toString('latin1', at, end);
    if (found < 0) return end;
    if (!/^[\t\x20-\x7e\x80-\xff]*\r\n$/.test(this.#line)) {
      throw new Refused(400, 'a chunk is malformed');
    }
    const line = this.#line.slice(0, -2);
    this.#line = '';
    this.#lineRead(line);
    return end;
  }

  #lineRead(line: string): void {
    switch (this.#next) {
      case 'size':
        this.#next = this.#sizeOf(line) || 'trailer';
        return;
      case 'end-of-chunk':
        if (line !== '') throw new Refused(400, 'a chunk is longer than its size');
        this.#next = 'size';
        return;
      default:
        if (line === '') this.#next = 'nothing';
        else if (!/^[^:\s]+:/.test(line)) throw new Refused(400, 'a trailer is malformed');
    }
  }

  #sizeOf(line: string): number {
    const [, size] = /^([0-9a-fA-F]{1,8})(?:[ \t]*;.*)?$/.exec(line) ?? [];
    if (size === undefined) throw new Refused(400, 'the size of a chunk is malformed');
    const bytes = Number.parseInt(size, 16);
    this.#dataBytes += bytes;
    if (this.#dataBytes > bodyBytesMax) throw new Refused(413, 'the body is too large');
    return bytes;
  }
}
