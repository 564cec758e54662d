/**
 * `traffic-main.ts FRONTEND ADDRESS...`: serves on port 8080 of the addresses, and connects to port
 * 80 of the frontend all the time, over one connection that stays and over many short ones. Prints
 * `ready`, and at SIGTERM what has become of them, as JSON.
 */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { paced } from '../lab/pace.ts';

/** What the program prints. */
export interface Traffic {
  readonly connections: number;
  /** Errors of connections that failed. */
  readonly failed: readonly string[];
  /** Whether the long connection was still open. */
  readonly isOpen: boolean;
  /** Lines that the long connection has carried. */
  readonly carried: number;
}

const answerMs = paced(5000);
/** Clients that ask all the time leave an emulated processor no time for the versions. */
const pauseMs = paced(1) > 1 ? 125 : 5;
const clients = 4;

const [frontend, ...addresses] = process.argv.slice(2);
for (const address of addresses) {
  // Short connections send `once`, and are closed by the server; the long one sends lines.
  const server = createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      if (String(data) === 'once') socket.end(address);
      else socket.write('line\n');
    });
  });
  server.listen(8080, address);
  await once(server, 'listening');
}

let connections = 0;
let carried = 0;
const failed: string[] = [];
let isEnding = false;

async function ask(): Promise<void> {
  connections += 1;
  const socket = connect({ host: frontend!, port: 80 });
  socket.setTimeout(answerMs, () => socket.destroy(new Error(`no answer in ${answerMs} ms`)));
  let answer = '';
  socket.on('data', (data) => {
    answer += String(data);
  });
  socket.end('once');
  try {
    await once(socket, 'close');
    if (!addresses.includes(answer)) failed.push(`answered ${JSON.stringify(answer)}`);
  } catch (error) {
    failed.push(String(error));
  }
}

async function client(): Promise<void> {
  while (!isEnding) {
    await ask();
    await sleep(pauseMs);
  }
}

const long = connect({ host: frontend!, port: 80 });
await once(long, 'connect');
long.on('error', (error) => failed.push(`the long connection: ${error}`));
long.on('data', () => {
  carried += 1;
  setTimeout(() => long.writable && long.write('more\n'), pauseMs);
});
long.write('more\n');
await once(long, 'data');
const all = Array.from({ length: clients }, client);
// The reader of this word may send the signal immediately.
const toEnd = once(process, 'SIGTERM');
console.log('ready');

await toEnd;
isEnding = true;
await Promise.all(all);
const isOpen = long.readyState === 'open';
console.log(JSON.stringify({ connections, failed, isOpen, carried } satisfies Traffic));
process.exit();
