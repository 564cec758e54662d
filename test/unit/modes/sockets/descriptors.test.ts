import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { NoRoom } from '../../../../src/modes/sockets/bounds.ts';
import { Descriptors } from '../../../../src/modes/sockets/descriptors.ts';
import { Switchboard } from '../../../../src/modes/sockets/switchboard.ts';
import {
  askOnce,
  frontend,
  host,
  pool,
  silenceMs,
  TCPClient,
  tcpEndpoint,
  UDPClient,
  udpEndpoint,
} from './peers.ts';

function board(limit: number) {
  const told: NoRoom[] = [];
  const descriptors = new Descriptors(limit, (noRoom) => told.push(noRoom));
  const made = new Switchboard(descriptors);
  onTestFinished(() => made.closeAll());
  return { board: made, descriptors, told };
}

/** Connections that are open. */
async function connected(at: string, clients: readonly string[]): Promise<TCPClient[]> {
  const made = clients.map((from) => new TCPClient(at, from));
  for (const client of made) expect(await client.ask()).not.toBe('reset');
  return made;
}

describe('the file descriptors of sockets', () => {
  it.each([
    // limit, all, frontend, client
    [20_000, 17_952, 8976, 4488],
    [1024, 768, 384, 192],
    [1_048_576, 65_536, 32_768, 16_384],
    [Number.MAX_SAFE_INTEGER, 65_536, 32_768, 16_384],
  ])('leave some for everything else below a limit of %i', (limit, all, ofFrontend, client) => {
    expect(new Descriptors(limit).max).toEqual({ all, frontend: ofFrontend, client });
  });

  it('are limited to a quarter for one client, and released when its connections end', async () => {
    const [vip, a, client, other] = [1, 2, 3, 4].map((n) => host(40, n)) as [
      string,
      string,
      string,
      string,
    ];
    await tcpEndpoint(a);
    // Room for 24 in all, 12 for a frontend, 6 for a client.
    const { board: sockets, descriptors, told } = board(32);
    await sockets.open(frontend(vip, pool(a)));
    const clients = await connected(vip, [client, client, client]);
    expect(descriptors.used).toBe(7);
    expect(await askOnce(vip, client)).toBe('reset');
    expect(await askOnce(vip, other)).toBe(a);
    expect(told).toMatchObject([{ bound: 'client', client, max: 6 }]);
    expect(descriptors.refused).toEqual({ all: 0, frontend: 0, client: 1 });
    for (const { socket } of clients) {
      const closed = once(socket, 'close');
      socket.destroy();
      await closed;
    }
    while (descriptors.used > 1) await new Promise(setImmediate);
    expect(await askOnce(vip, client)).toBe(a);
  });

  it('are limited to half for one frontend, and other frontends are served', async () => {
    const [vip, second, a] = [host(41, 1), host(41, 2), host(41, 3)];
    const clients = [4, 4, 4, 5, 5, 5].map((n) => host(41, n));
    await tcpEndpoint(a);
    const { board: sockets, told } = board(32);
    await sockets.open(frontend(vip, pool(a)));
    await sockets.open(frontend(second, pool(a)));
    await connected(vip, clients);
    expect(await askOnce(vip, host(41, 6))).toBe('reset');
    expect(told).toMatchObject([{ bound: 'frontend', max: 12 }]);
    expect(await askOnce(second, host(41, 6))).toBe(a);
  });

  it('are released if no endpoint answers', async () => {
    const [vip, gone] = [host(42, 1), host(42, 2)];
    const { board: sockets, descriptors } = board(32);
    await sockets.open(frontend(vip, pool(gone)));
    for (let i = 0; i < 10; i += 1) expect(await askOnce(vip)).toBe('reset');
    while (descriptors.used > 1) await new Promise(setImmediate);
  });

  it('are limited to one for a UDP client, whose other datagrams are dropped', async () => {
    const [vip, a] = [host(43, 1), host(43, 2)];
    await udpEndpoint(a);
    // Room for 6 in all, 3 for a frontend, 1 for a client.
    const { board: sockets, descriptors, told } = board(8);
    const served = frontend(vip, pool(a), { protocol: 'UDP' });
    await sockets.open(served);
    const client = new UDPClient(vip);
    expect(await client.ask()).toBe(a);
    expect(await new UDPClient(vip).ask(silenceMs)).toBe('silence');
    expect(told).toMatchObject([{ bound: 'client', max: 1 }]);
    expect(await client.ask()).toBe(a);
    sockets.close(served.id);
    expect(descriptors.used).toBe(0);
  });

  it('are not all used by listening sockets', async () => {
    const a = host(44, 9);
    const { board: sockets, descriptors } = board(4);
    const made = [1, 2, 3, 4].map((n) => frontend(host(44, n), pool(a)));
    for (const each of made.slice(0, 3)) expect(await sockets.open(each)).toBeUndefined();
    expect(await sockets.open(made[3]!)).toMatchObject({
      code: 'EMFILE',
      isLasting: false,
      message: expect.stringContaining('sockets may use 3 file descriptors'),
    });
    sockets.close(made[0]!.id);
    expect(await sockets.open(made[3]!)).toBeUndefined();
    expect(descriptors.used).toBe(3);
  });
});

it('a node port does not connect to itself through another node port of this node', async () => {
  const [vip, client, a] = [host(45, 1), host(45, 2), host(45, 3)];
  await Promise.all([tcpEndpoint(client), tcpEndpoint(a)]);
  const { board: sockets } = board(1024);
  await sockets.open(frontend(vip, pool(client), { contender: 'nodePort' }));
  expect(await askOnce(vip, client)).toBe('reset');
  expect(await askOnce(vip, a)).toBe(client);
  sockets.update(frontend(vip, pool(client, a), { contender: 'nodePort' }));
  expect(await askOnce(vip, client)).toBe(a);
  // A pod reaches itself through its Service.
  sockets.update(frontend(vip, pool(client)));
  expect(await askOnce(vip, client)).toBe(client);
});
