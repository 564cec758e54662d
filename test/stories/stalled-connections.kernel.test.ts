/** Connections through sockets of this process, of which one side or both do not read. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { NoRoom } from '../../src/modes/sockets/bounds.ts';
import { Descriptors } from '../../src/modes/sockets/descriptors.ts';
import { Switchboard } from '../../src/modes/sockets/switchboard.ts';
import { hangsMs } from '../lab/pace.ts';
import { askOnce, frontend, host, pool, port, TCPClient } from '../unit/modes/sockets/peers.ts';

const mebibyte = 1024 ** 2;
/** All sockets may use an eighth for buffers: 8 MiB, a frontend 4 MiB, and a client 2 MiB. */
const memory = 64 * mebibyte;
/** Of each client at each frontend. */
const connectionsMax = 400;

/** Sends as much as is taken, for ever, and reads nothing. */
function pushes(socket: Socket): void {
  const bytes = Buffer.alloc(65_536);
  const write = (): void => {
    while (socket.write(bytes));
  };
  socket.pause();
  socket.on('drain', write);
  write();
}

/** Answers `who?` with its address. To anything else it pushes. */
async function endpoint(at: string): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', (bytes) => {
      if (String(bytes) === 'who?') socket.write(at);
      else pushes(socket);
    });
  });
  server.listen({ host: at, port });
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
}

/** Memory of the kernel for sockets between this side and that one, as `ss` reads it. */
function kernelBytes(filter: string): number {
  const shown = execFileSync('ss', ['-Htmn', ...filter.split(' ')], { encoding: 'utf8' });
  let sum = 0;
  for (const [, received, reserved, queued] of shown.matchAll(
    /skmem:\(r(\d+),rb\d+,t\d+,tb\d+,f(\d+),w(\d+)/g,
  )) {
    sum += Number(received) + Number(reserved) + Number(queued);
  }
  return sum;
}

for (const [bound, frontends, clients, max] of [
  ['client', 1, 1, 2],
  ['frontend', 1, 3, 4],
  ['all', 3, 2, 8],
] as const) {
  test(`stalled connections have no more in buffers than is allowed: ${bound}`, async () => {
    const block = { client: 71, frontend: 72, all: 73 }[bound];
    const [a, spareVip, other] = [host(block, 1), host(block, 2), host(block, 3)] as const;
    await endpoint(a);
    const told: NoRoom[] = [];
    const descriptors = new Descriptors(undefined, (noRoom) => told.push(noRoom), memory);
    const board = new Switchboard(descriptors);
    onTestFinished(() => board.closeAll());
    await board.open(frontend(spareVip, pool(a)));
    const idle = new TCPClient(spareVip, other);
    expect(await idle.ask()).toBe(a);
    const vips = Array.from({ length: frontends }, (_, f) => host(block, 10 + f));
    for (const vip of vips) await board.open(frontend(vip, pool(a)));
    const { buffers } = descriptors;
    // A busy machine resets clients that found no endpoint in time: more come until it is enough.
    for (let i = 0; i < connectionsMax && buffers.ended[bound] === 0; i += 1) {
      for (const [f, vip] of vips.entries()) {
        for (let c = 0; c < clients; c += 1) {
          const { socket } = new TCPClient(vip, host(block, 100 + f * clients + c));
          socket.once('connect', () => pushes(socket));
        }
      }
      await sleep(20);
    }
    await vi.waitFor(() => expect(buffers.ended[bound]).toBeGreaterThan(0), hangsMs);
    // The sockets of this process: to clients, and to the endpoint.
    const ours = `( sport = :${port} and not src ${a} ) or ( dport = :${port} and dst ${a} )`;
    await vi.waitFor(() => expect(kernelBytes(ours)).toBeLessThan(max * mebibyte), hangsMs);
    expect(told.every((one) => one.of === 'bytes' && one.client !== other)).toBe(true);
    // Another client is served, and one that does not move but holds nothing keeps its connection.
    expect(await askOnce(spareVip, other)).toBe(a);
    expect(idle.socket.destroyed).toBe(false);
    idle.socket.destroy();
  });
}
