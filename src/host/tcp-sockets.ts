/** TCP sockets of this network namespace, as /proc/net has them. */
import type { Address } from '../net/address.ts';
import type { ReadableFiles } from './files.ts';

export interface TCPSocket {
  readonly port: number;
  /** In hexadecimal digits, as `hexOf` writes them. */
  readonly address: string;
  readonly inode: string;
  readonly peerPort: number;
  readonly isListening: boolean;
  /** Bytes that were sent, or are to be, and that the peer has not acknowledged. */
  readonly unacknowledged: number;
  /** Of one that listens: connections that no program has accepted yet. */
  readonly waiting: number;
}

const files = ['/proc/net/tcp', '/proc/net/tcp6'];
const listenState = '0A';

/** Those with this port of their own. A node may have very many: ask where something failed. */
export function tcpSocketsAt(machine: ReadableFiles, port: number): TCPSocket[] {
  const own = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return socketsIn(machine, own).filter((one) => one.port === port);
}

/** Those that listen. */
export function listenersIn(machine: ReadableFiles): TCPSocket[] {
  return socketsIn(machine, ` ${listenState} `).filter(({ isListening }) => isListening);
}

/** `text` is in their lines, and perhaps in those of others. */
function socketsIn(machine: ReadableFiles, text: string): TCPSocket[] {
  return files
    .flatMap((file) => (machine.read(file) ?? '').split('\n'))
    .filter((line) => line.includes(text))
    .flatMap((line) => {
      const columns = line.trim().split(/ +/);
      const [, local = '', peer = '', state, queues = ''] = columns;
      const [address = '', port] = local.split(':');
      const [, peerPort] = peer.split(':');
      if (port === undefined || peerPort === undefined) return [];
      const [unacknowledged = 0, waiting = 0] = queues.split(':').map(numberOf);
      const isListening = state === listenState;
      const ports = { port: numberOf(port), peerPort: numberOf(peerPort) };
      const inode = columns[9] ?? '';
      return [{ ...ports, address, inode, isListening, unacknowledged, waiting }];
    });
}

/**
 * How many connections to the address and port wait for their program to accept them; 0: none, or
 * none of this namespace listens there.
 */
export function waitingAt(machine: ReadableFiles, { bytes }: Address, port: number): number {
  const own = [hexOf(bytes), '0'.repeat(8), '0'.repeat(32)];
  const listening = tcpSocketsAt(machine, port).filter(
    (one) => one.isListening && own.includes(one.address),
  );
  return Math.max(0, ...listening.map(({ waiting }) => waiting));
}

/** Words in the byte order of the machine: on machines of ours, the last byte first. */
export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).swap32().toString('hex').toUpperCase();
}

function numberOf(hexadecimal: string): number {
  return Number.parseInt(hexadecimal, 16);
}
