import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { Connections } from '../../../src/serve/connections.ts';

async function serving(connections: Connections): Promise<number> {
  const server = createServer((_, response) => response.end('well'));
  connections.bound(server);
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}

/** A connection that says nothing. */
async function silent(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
    .on('error', () => {})
    .resume();
  await new Promise((resolve) => socket.once('connect', resolve));
  onTestFinished(() => void socket.destroy());
  return socket;
}

it('those that say nothing make room for those that ask, the longest silent first', async () => {
  const connections = new Connections(4);
  const ports = await Promise.all([serving(connections), serving(connections)]);
  const mute: Socket[] = [];
  for (let i = 0; i < 20; i += 1) mute.push(await silent(ports[i % 2]!));
  for (const port of ports) {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } });
    expect(await answer.text()).toBe('well');
  }
  const closed = mute.slice(0, 17).map((one) => {
    return one.readyState === 'closed' || new Promise((resolve) => one.once('close', resolve));
  });
  await Promise.all(closed);
  expect(mute.at(-1)!.readyState).toBe('open');
});
