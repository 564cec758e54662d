import { once } from 'node:events';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { NoRoom } from '../../../../src/modes/sockets/bounds.ts';
import { Descriptors } from '../../../../src/modes/sockets/descriptors.ts';
import { Switchboard } from '../../../../src/modes/sockets/switchboard.ts';
import { turnsUntil } from '../../turns.ts';
import {
  askOnce,
  frontend,
  host,
  pool,
  silentEndpoint,
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
    await turnsUntil(() => descriptors.used <= 1);
    expect(await askOnce(vip, client)).toBe(a);
  });

  it('are limited to half for one frontend, and other frontends are served', async () => {
    const [vip, second, a] = [host(41, 1), host(41, 2), host(41, 3)];
    const clients = [4, 4, 4, 5, 5, 5].map((n) => host(41, n));
    await tcpEndpoint(a);
    const { board: sockets, told } = board(32);
    await sockets.open(frontend(vip, pool(a)));
    await sockets.open(frontend(second, pool(a)));
    const made = await connected(vip, clients);
    // Clients that have as much as any other get no more.
    expect(await askOnce(vip, host(41, 4))).toBe('reset');
    expect(told).toMatchObject([{ bound: 'client', max: 6 }]);
    expect(await askOnce(second, host(41, 6))).toBe(a);
    expect(made.every(({ socket }) => !socket.destroyed)).toBe(true);
  });

  it('are taken from the client that has most for one that has none, its oldest first', async () => {
    const [vip, second, a] = [host(49, 1), host(49, 2), host(49, 3)];
    await tcpEndpoint(a);
    // Room for 24 in all, 12 for a frontend, 6 for a client.
    const { board: sockets, descriptors, told } = board(32);
    for (const at of [vip, second]) await sockets.open(frontend(at, pool(a)));
    const [first, , , ...others] = await connected(
      vip,
      [4, 4, 4, 5, 5, 6].map((n) => host(49, n)),
    );
    const closed = once(first!.socket, 'close').catch(() => {});
    const newcomer = new TCPClient(vip, host(49, 7));
    expect(await newcomer.ask()).toBe(a);
    await closed;
    expect(told).toMatchObject([{ bound: 'frontend', client: host(49, 4), max: 12 }]);
    expect(descriptors.refused).toEqual({ all: 0, frontend: 1, client: 0 });
    // No client has more than two times what this one has.
    expect(await askOnce(vip, host(49, 6))).toBe('reset');
    // The rest of what all may have is taken; another frontend can be opened nevertheless.
    await connected(
      second,
      [5, 7, 7, 8, 8].map((n) => host(49, n)),
    );
    expect(descriptors.used).toBe(24);
    expect(await sockets.open(frontend(host(49, 9), pool(a)))).toBeUndefined();
    expect(told.at(-1)).toMatchObject({ bound: 'all', max: 24 });
    expect(descriptors.used).toBeLessThanOrEqual(24);
    expect(others.every(({ socket }) => socket.destroyed)).toBe(false);
  });

  it('are taken from the network that has most, when no address has', async () => {
    const [vip, a] = [host(48, 1), host(48, 2)];
    await tcpEndpoint(a);
    // Room for 48 at a frontend: 24 connections.
    const { board: sockets, told } = board(128);
    await sockets.open(frontend(vip, pool(a)));
    await connected(
      vip,
      Array.from({ length: 24 }, (_, n) => host(48, 100 + n)),
    );
    // In another network, which gets half of what the first one keeps.
    const newcomer = '127.202.48.1';
    await connected(vip, Array(8).fill(newcomer));
    expect(await askOnce(vip, newcomer)).toBe('reset');
    const made = told.filter(({ client }) => client !== newcomer);
    expect(made).toHaveLength(8);
    expect(told.at(-1)).toMatchObject({ bound: 'frontend', client: newcomer, max: 48 });
  });

  it('are released if no endpoint answers', async () => {
    const [vip, gone] = [host(42, 1), host(42, 2)];
    const { board: sockets, descriptors } = board(32);
    await sockets.open(frontend(vip, pool(gone)));
    for (let i = 0; i < 10; i += 1) expect(await askOnce(vip)).toBe('reset');
    await turnsUntil(() => descriptors.used <= 1);
  });

  it('are released when a client is reset whose endpoint has not answered yet', async () => {
    const [vip, silent] = [host(47, 1), host(47, 2)];
    await silentEndpoint(silent);
    const { board: sockets, descriptors } = board(32);
    await sockets.open(frontend(vip, pool(silent)));
    // No dial ends by its time.
    vi.useFakeTimers({ toFake: ['setTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    for (const sent of ['', 'who?']) {
      const { socket } = new TCPClient(vip);
      if (sent !== '') socket.write(sent);
      await turnsUntil(() => descriptors.used >= 3);
      socket.resetAndDestroy();
      await turnsUntil(() => descriptors.used <= 1);
    }
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
    expect(await new UDPClient(vip).mayAsk()).toBe('silence');
    await turnsUntil(() => told.length > 0);
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
  await sockets.open(frontend(vip, pool(client), { claimKind: 'nodePort' }));
  expect(await askOnce(vip, client)).toBe('reset');
  expect(await askOnce(vip, a)).toBe(client);
  sockets.update(frontend(vip, pool(client, a), { claimKind: 'nodePort' }));
  expect(await askOnce(vip, client)).toBe(a);
  // A pod reaches itself through its Service.
  sockets.update(frontend(vip, pool(client)));
  expect(await askOnce(vip, client)).toBe(client);
});
