/** Sends a packet as any program of this node would. */
import { createSocket } from 'node:dgram';
import { connect } from 'node:net';
import { formatAddress } from '../net/address.ts';
import { type Target, targetText } from './target.ts';

const patienceMs = 1000;

/** Resolves to what became of it, in a sentence; undefined: this program cannot do that. */
export async function probe(target: Target): Promise<string | undefined> {
  switch (target.protocol) {
    case 'TCP':
      return openConnection(target);
    case 'UDP':
      return sendDatagram(target);
    case 'SCTP':
      return undefined;
  }
}

function openConnection(target: Target): Promise<string> {
  const { address, port } = target;
  return new Promise((resolve) => {
    const socket = connect({ host: formatAddress(address.bytes), port });
    const end = (what: string): void => {
      socket.destroy();
      resolve(`The connection of this node to ${targetText(target)} ${what}.`);
    };
    socket.setTimeout(patienceMs, () => end(`was not answered within ${patienceMs / 1000} s`));
    socket.once('connect', () => end('was accepted'));
    socket.once('error', ({ message }) => end(`failed: ${message}`));
  });
}

function sendDatagram(target: Target): Promise<string> {
  const { address, port } = target;
  return new Promise((resolve) => {
    const socket = createSocket(address.family === 'IPv4' ? 'udp4' : 'udp6');
    const end = (what: string): void => {
      socket.close();
      resolve(`An empty datagram of this node to ${targetText(target)} ${what}.`);
    };
    socket.once('error', ({ message }) => end(`failed: ${message}`));
    socket.send('', port, formatAddress(address.bytes), (error) => {
      end(error === null ? 'was sent' : `failed: ${error.message}`);
    });
  });
}
