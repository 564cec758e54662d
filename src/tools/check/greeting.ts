/**
 * What the program at an endpoint makes of a greeting of TLS, and of a blank line; and whether
 * large packets reach it. Programs that speak first are sent nothing.
 */
import { connect } from 'node:net';
import type { ReadableFiles } from '../../host/files.ts';
import type { ReachTarget } from '../../host/reach.ts';
import { tcpSocketsAt } from '../../host/tcp-sockets.ts';

interface Greeting {
  /** `nothing`: no byte came back. */
  readonly speaks: 'TLS' | 'HTTP' | 'other' | 'nothing';
  /** It accepted a connection and reset it although nothing was sent. */
  readonly isReset: boolean;
  /** Bytes of the greeting that it has not acknowledged: they do not get there. */
  readonly unacknowledged: number;
}

interface GreetOptions {
  /** The length of the greeting of TLS; it has about 80 bytes at least. */
  readonly sizeBytes: number;
  readonly timeoutMs: number;
  /** How long a program may take to speak first. */
  readonly silenceMs: number;
  readonly machine: ReadableFiles;
}

/** How one connection ended. */
interface Ended {
  readonly bytes: Buffer;
  readonly isReset: boolean;
  readonly unacknowledged: number;
}

/** Opens a connection, and another one if no byte comes back on it. */
export async function greet(target: ReachTarget, options: GreetOptions): Promise<Greeting> {
  const first = await say(target, clientHello(options.sizeBytes), options);
  const isOver = first.bytes.length > 0 || first.isReset || first.unacknowledged > 0;
  const { bytes, ...rest } = isOver ? first : await say(target, blankLine, options);
  return { speaks: languageOf(bytes), ...rest };
}

const blankLine = Buffer.from('\r\n\r\n');

function say(
  { address, port }: ReachTarget,
  words: Buffer,
  { machine, silenceMs, timeoutMs }: GreetOptions,
): Promise<Ended> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port });
    let isSilent = true;
    let timer: NodeJS.Timeout | undefined;
    const end = (bytes: Buffer, isReset = false, unacknowledged = 0): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ bytes, isReset, unacknowledged });
    };
    const given = (): void => {
      const own = socket.localPort === undefined ? [] : tcpSocketsAt(machine, socket.localPort);
      const unacknowledged = own.find(({ peerPort }) => peerPort === port)?.unacknowledged;
      end(nothing, false, unacknowledged);
    };
    const speak = (): void => {
      isSilent = false;
      socket.write(words);
      timer = setTimeout(given, timeoutMs);
    };
    socket.once('connect', () => {
      timer = setTimeout(speak, silenceMs);
    });
    socket.once('data', end);
    socket.once('end', () => end(nothing));
    socket.once('error', ({ code }: NodeJS.ErrnoException) => {
      end(nothing, isSilent && code === 'ECONNRESET');
    });
    socket.setTimeout(silenceMs + 2 * timeoutMs, () => end(nothing));
  });
}

const nothing = Buffer.alloc(0);

/** The types of records with which a server begins: handshake and alert (RFC 8446, 5.1). */
const recordTypes: readonly (number | undefined)[] = [0x16, 0x15];

function languageOf(bytes: Buffer): Greeting['speaks'] {
  if (bytes.length === 0) return 'nothing';
  if (recordTypes.includes(bytes[0]) && bytes[1] === 3) return 'TLS';
  return bytes.toString('latin1', 0, 5) === 'HTTP/' ? 'HTTP' : 'other';
}

/** The most that a record has (RFC 8446, 5.1). */
export const greetingBytesMax = 16_384;

/** ECDHE and RSA with AES-GCM, which any server of TLS 1.2 knows; others answer with an alert. */
const suites = Buffer.from('c02bc02fc02cc030009c002f', 'hex');
const paddingExtension = 0x15;

/** A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2), padded to this length (RFC 7685). */
function clientHello(sizeBytes: number): Buffer {
  const version = Buffer.of(3, 3);
  const fixed = [version, Buffer.alloc(32, 1), Buffer.of(0), sized(2, suites), Buffer.of(1, 0)];
  const bare = fixed.reduce((sum, { length }) => sum + length, 0);
  // Headers of record, handshake, extensions and padding.
  const padding = Buffer.alloc(Math.max(0, sizeBytes - bare - 5 - 4 - 2 - 4));
  const extension = Buffer.concat([Buffer.of(0, paddingExtension), sized(2, padding)]);
  const body = Buffer.concat([...fixed, sized(2, extension)]);
  const handshake = Buffer.concat([Buffer.of(1), sized(3, body)]);
  return Buffer.concat([Buffer.of(0x16, 3, 1), sized(2, handshake)]);
}

/** With its length before it. */
function sized(lengthBytes: number, content: Buffer): Buffer {
  const length = Buffer.alloc(lengthBytes);
  length.writeUIntBE(content.length, 0, lengthBytes);
  return Buffer.concat([length, content]);
}
