/** `node flooder-main.ts`: floods a port as each `Flood` says; see `answerCommands`. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { answerCommands } from '../../test/lab/asked-process.ts';
import type { Flood, Flooded } from './flooder.ts';

const blockBytes = 64 * 1024;

function textOf({ kind, path }: Flood): Buffer {
  const request = `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
  switch (kind) {
    case 'pipelined':
    case 'not read':
      return Buffer.from(request.repeat(Math.floor(blockBytes / request.length)));
    case 'half a request':
      return Buffer.from(request.slice(0, -2));
    case 'headers of 64 KiB':
      return Buffer.from(`${request.slice(0, -2)}X-Long: ${'x'.repeat(blockBytes)}\r\n\r\n`);
    case 'a body without end': {
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n`;
      return Buffer.from(`${head}400\r\n${'x'.repeat(1024)}\r\n`);
    }
  }
}

async function flood(asked: Flood): Promise<Flooded> {
  const text = textOf(asked);
  const chunk = Buffer.from(`400\r\n${'x'.repeat(1024)}\r\n`.repeat(32));
  const count = { connections: 0, bytesRead: 0 };
  const open = new Set<Socket>();
  let isOver = false;
  const start = (i: number): void => {
    if (isOver) return;
    const localAddress = `127.0.1.${1 + (i % asked.sources)}`;
    const socket = connect({ host: '127.0.0.1', port: asked.port, localAddress });
    open.add(socket);
    count.connections += 1;
    const write = (): void => {
      const next = asked.kind === 'a body without end' ? chunk : text;
      const isRepeated = asked.kind !== 'half a request' && asked.kind !== 'headers of 64 KiB';
      while (isRepeated && socket.writable && socket.write(next));
    };
    socket.on('error', () => {});
    socket.on('drain', write);
    socket.on('close', () => {
      open.delete(socket);
      // Not in the same turn: a port that refuses must not be asked without a pause.
      setTimeout(() => start(i), 1);
    });
    socket.on('connect', () => {
      socket.write(text);
      write();
    });
    if (asked.kind === 'not read') socket.pause();
    else {
      socket.on('data', (part: Buffer) => {
        count.bytesRead += part.length;
      });
    }
  };
  for (let i = 0; i < asked.connections; i += 1) start(i);
  await sleep(asked.seconds * 1000);
  isOver = true;
  for (const socket of open) socket.destroy();
  return count;
}

/** The control: a server that reads and answers nothing. */
const silent = createServer((socket) => socket.on('error', () => {}).resume());
await once(silent.listen(10_250, '127.0.0.1'), 'listening');
await answerCommands(flood);
silent.close();
