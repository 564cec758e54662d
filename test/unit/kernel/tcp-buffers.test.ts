import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { loadAddon } from '../../../src/kernel/addon.ts';
import { quiet } from '../sync/double.ts';
import { turnsUntil } from '../turns.ts';

const { bufferedBytes, limitBuffers } = loadAddon();

function descriptorOf(socket: Socket): number {
  return (socket as unknown as { readonly _handle: { readonly fd: number } })._handle.fd;
}

/** Both ends of a connection; nothing is read. */
async function connection(): Promise<[Socket, Socket]> {
  const server = createServer({ pauseOnConnect: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { readonly port: number };
  const client = connect(port, '127.0.0.1');
  const [[accepted]] = await Promise.all([once(server, 'connection'), once(client, 'connect')]);
  onTestFinished(() => {
    for (const socket of [client, accepted]) socket.destroy();
    server.close();
  });
  return [client, accepted];
}

/** Writes until the kernel takes no more; resolves to what it took. */
async function fill(socket: Socket): Promise<number> {
  let before = -1;
  let taken = 0;
  const bytes = Buffer.alloc(4096);
  while (taken > before) {
    before = taken;
    while (socket.writableLength === 0) {
      socket.write(bytes);
      if (socket.writableLength === 0) taken += bytes.length;
    }
    // More is taken when the other end has acknowledged.
    await quiet();
    if (socket.writableLength === 0) taken += bytes.length;
  }
  return taken;
}

it('the buffers of a TCP socket are limited, and what is in them is known', async () => {
  const size = 32 * 1024;
  const [client, accepted] = await connection();
  for (const socket of [client, accepted]) limitBuffers(descriptorOf(socket), size);
  expect(bufferedBytes(descriptorOf(accepted))).toBeLessThan(size);
  const taken = await fill(client);
  expect(taken).toBeGreaterThan(size);
  // The kernel takes twice as much memory for each, and one segment more.
  expect(taken).toBeLessThan(4 * size + 2 * 65_536);
  const held = (): number =>
    bufferedBytes(descriptorOf(client)) + bufferedBytes(descriptorOf(accepted));
  expect(held()).toBeGreaterThanOrEqual(taken);
  accepted.resume();
  await turnsUntil(() => held() < size);
});

it('a descriptor that is not that of a TCP socket has no buffers', () => {
  limitBuffers(-1, 4096);
  expect(bufferedBytes(-1)).toBe(0);
  expect(() => limitBuffers('' as never, 4096)).toThrow(TypeError);
  expect(() => bufferedBytes(undefined as never)).toThrow(TypeError);
});
