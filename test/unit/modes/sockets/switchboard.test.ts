/** What clients of sockets get, on loopback addresses. */
import { once } from 'node:events';
import { createServer, Server } from 'node:net';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { rangesOf } from '../../../../src/net/address-ranges.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { address, cidr } from '../../state/build.ts';
import { quiet } from '../../sync/double.ts';
import { turnsUntil } from '../../turns.ts';
import {
  askOnce,
  frontend,
  host,
  pool,
  port,
  remembering,
  silentEndpoint,
  switchboard,
  TCPClient,
  tcpEndpoint,
  UDPClient,
  udpEndpoint,
} from './peers.ts';

describe('a TCP frontend', () => {
  it('distributes connections round-robin', async () => {
    const [vip, a, b] = [host(1, 1), host(1, 2), host(1, 3)];
    await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
    const board = switchboard();
    expect(await board.open(frontend(vip, pool(a, b)))).toBeUndefined();
    const answers = [
      await askOnce(vip),
      await askOnce(vip),
      await askOnce(vip),
      await askOnce(vip),
    ];
    expect(answers.sort()).toEqual([a, a, b, b]);
  });

  it('supports half-closed connections', async () => {
    const [vip, a] = [host(2, 1), host(2, 2)];
    await tcpEndpoint(a);
    await switchboard().open(frontend(vip, pool(a)));
    const client = new TCPClient(vip);
    expect(await client.ask()).toBe(a);
    client.socket.end();
    expect(await client.read()).toBe('bye');
    await once(client.socket, 'end');
  });

  it.each([
    [0, 22],
    [4, 23],
    [1_000_000, 24],
  ])(
    'passes on %i bytes and the end that came before the endpoint answered',
    async (sent, block) => {
      const [vip, silent, a] = [host(block, 1), host(block, 2), host(block, 3)];
      const server = createServer({ allowHalfOpen: true }, async (client) => {
        let received = 0;
        for await (const bytes of client) received += (bytes as Buffer).length;
        client.end(String(received));
      });
      server.listen(port, a);
      await Promise.all([once(server, 'listening'), silentEndpoint(silent)]);
      onTestFinished(() => void server.close());
      await switchboard().open(frontend(vip, pool(silent, a)));
      // One of them is sent to the silent endpoint first.
      for (const client of [new TCPClient(vip), new TCPClient(vip)]) {
        client.socket.end(Buffer.alloc(sent));
        expect(await client.read()).toBe(String(sent));
      }
    },
  );

  it('tries the next endpoint if one refuses, and resets if all do', async () => {
    const [vip, gone, a, alsoGone] = [host(3, 1), host(3, 2), host(3, 3), host(3, 4)];
    await tcpEndpoint(a);
    const board = switchboard();
    await board.open(frontend(vip, pool(gone, a, alsoGone)));
    for (let i = 0; i < 4; i += 1) expect(await askOnce(vip)).toBe(a);
    board.update(frontend(vip, pool(gone, alsoGone)));
    expect(await askOnce(vip)).toBe('reset');
  });

  it('accepts only clients in the source ranges', async () => {
    const [vip, a, friend, outsider] = [host(4, 1), host(4, 2), host(4, 3), host(4, 4)];
    await tcpEndpoint(a);
    await switchboard().open(frontend(vip, pool(a), { clients: rangesOf([cidr(`${friend}/32`)]) }));
    expect(await askOnce(vip, friend)).toBe(a);
    expect(await askOnce(vip, outsider)).toBe('reset');
  });

  it('distinguishes the node, pods and others by address', async () => {
    const [vip, far, near, node, pod] = [1, 2, 3, 4, 5].map((n) => host(5, n)) as [
      string,
      string,
      string,
      string,
      string,
    ];
    await Promise.all([tcpEndpoint(far), tcpEndpoint(near)]);
    const pools = { node: pool(far), pod: pool(far), outside: pool(near) };
    const networks = { hostAddresses: [address(node)], podCIDR: cidr(`${pod}/32`) };
    await switchboard().open(frontend(vip, pool(far), { pools, networks }));
    expect(await askOnce(vip, vip)).toBe(far);
    expect(await askOnce(vip, node)).toBe(far);
    expect(await askOnce(vip, pod)).toBe(far);
    expect(await askOnce(vip, host(5, 6))).toBe(near);
  });

  it('keeps a client at its endpoint while the Service has it, for the affinity timeout', async () => {
    const [vip, a, b, client] = [host(6, 1), host(6, 2), host(6, 3), host(6, 4)];
    await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
    const board = switchboard();
    const now = performance.now.bind(performance);
    let laterMs = 0;
    const spy = vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs);
    onTestFinished(() => spy.mockRestore());
    const timeoutSeconds = 600;
    const sticky = { affinity: remembering(pool(a, b), timeoutSeconds) };
    await board.open(frontend(vip, pool(a, b), sticky));
    const first = await askOnce(vip, client);
    await askOnce(vip, host(6, 5));
    for (let i = 0; i < 3; i += 1) expect(await askOnce(vip, client)).toBe(first);
    const other = first === a ? b : a;
    board.update(
      frontend(vip, pool(other), { affinity: remembering(pool(other), timeoutSeconds) }),
    );
    expect(await askOnce(vip, client)).toBe(other);
    board.update(frontend(vip, pool(a, b), sticky));
    expect(await askOnce(vip, client)).toBe(other);
    laterMs = timeoutSeconds * 1000 + 1;
    const later = [await askOnce(vip, client), await askOnce(vip, host(6, 5))];
    expect(later.sort()).toEqual([a, b]);
  });

  it('keeps a client at its endpoint for all frontends of a Service port', async () => {
    const [vip, second, a, b] = [host(20, 1), host(20, 2), host(20, 3), host(20, 4)];
    const clients = [5, 6, 7, 8, 9, 10].map((n) => host(20, n));
    await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
    const board = switchboard();
    const sticky = { affinity: remembering(pool(a, b), 60) };
    const ask = (at: string) => Promise.all(clients.map((client) => askOnce(at, client)));
    const first = frontend(vip, pool(a), sticky);
    await board.open(first);
    await ask(vip);
    await board.open(frontend(second, pool(a, b), sticky));
    board.close(first.id);
    expect(new Set(await ask(second))).toEqual(new Set([a]));
    const affinity = { ...sticky.affinity, id: 'IPv4 default/shop/TCP' };
    board.update(frontend(second, pool(a, b), { affinity }));
    expect((await ask(second)).sort()).toEqual([a, a, a, b, b, b]);
  });

  it('accepts no clients after it is closed, and keeps existing connections', async () => {
    const [vip, a] = [host(7, 1), host(7, 2)];
    await tcpEndpoint(a);
    const board = switchboard();
    await board.open(frontend(vip, pool(a)));
    const client = new TCPClient(vip);
    expect(await client.ask()).toBe(a);
    board.close(frontend(vip, pool(a)).id);
    expect(await askOnce(vip)).toBe('refused');
    expect(await client.ask()).toBe(a);
    expect(board.isBusy(address(vip).bytes)).toBe(true);
    board.closeAll();
    expect(await client.read()).toBe('reset');
    await turnsUntil(() => !board.isBusy(address(vip).bytes));
  });

  it('resets both sides if one is reset', async () => {
    const [vip, a] = [host(8, 1), host(8, 2)];
    await tcpEndpoint(a);
    const board = switchboard();
    await board.open(frontend(vip, pool(a)));
    const client = new TCPClient(vip);
    await client.ask();
    client.socket.resetAndDestroy();
    await turnsUntil(() => !board.isBusy(address(vip).bytes));
    expect(await askOnce(vip)).toBe(a);
  });
});

describe('a connection that the Service does not let stay', () => {
  it('is reset when its endpoint has gone', async () => {
    const [vip, a, b] = [host(26, 1), host(26, 2), host(26, 3)];
    await Promise.all([tcpEndpoint(a), tcpEndpoint(b)]);
    const board = switchboard();
    await board.open(frontend(vip, pool(a, b), { isEnding: true }));
    const clients = Array.from({ length: 4 }, () => new TCPClient(vip));
    const answers: string[] = [];
    for (const client of clients) answers.push(await client.ask());
    const kept = (...hosts: string[]) => {
      return { family: 'IPv4', key: 'default/web/TCP', endings: { kept: pool(...hosts) } };
    };
    board.changed(kept(a, b) as Forwarding, kept(b) as Forwarding);
    const next = clients.map((client, i) => (answers[i] === a ? client.read() : client.ask()));
    expect((await Promise.all(next)).sort()).toEqual([b, b, 'reset', 'reset']);
  });

  it('is reset when it is as old as it may be, a tenth more or less', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const [vip, a] = [host(27, 1), host(27, 2)];
    await tcpEndpoint(a);
    await switchboard().open(frontend(vip, pool(a), { maxAgeMs: 1000 }));
    const client = new TCPClient(vip);
    expect(await client.ask()).toBe(a);
    vi.advanceTimersByTime(899);
    expect(await client.ask()).toBe(a);
    vi.advanceTimersByTime(201);
    expect(await client.read()).toBe('reset');
  });
});

describe('an endpoint that is itself a frontend', () => {
  it('receives no traffic, to prevent a loop', async () => {
    const [one, other, a] = [host(10, 1), host(10, 2), host(10, 3)];
    await tcpEndpoint(a);
    const board = switchboard();
    await board.open(frontend(one, pool(other)));
    await board.open(frontend(other, pool(one, a)));
    expect(await askOnce(one)).toBe('reset');
    expect(await askOnce(other)).toBe(a);
    expect(await askOnce(other)).toBe(a);
    const udp = { protocol: 'UDP' } as const;
    await board.open(frontend(one, pool(other), udp));
    await board.open(frontend(other, pool(one), udp));
    expect(await new UDPClient(one).mayAsk()).toBe('silence');
  });
});

describe('a client that does not read', () => {
  it('slows down its endpoint', async () => {
    const [vip, a] = [host(9, 1), host(9, 2)];
    let written = 0;
    const server = createServer((client) => {
      client.on('error', () => {});
      const write = (): void => {
        while (client.write(Buffer.alloc(65_536))) written += 65_536;
        client.once('drain', write);
      };
      write();
    });
    server.listen(port, a);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    await switchboard().open(frontend(vip, pool(a)));
    const client = new TCPClient(vip);
    client.socket.pause();
    let before = -1;
    while (written === 0 || written > before) {
      before = written;
      await quiet();
    }
    client.socket.resume();
    await turnsUntil(() => written > before);
  });

  it('gets later what an endpoint has sent piece by piece', async () => {
    const [vip, a] = [host(25, 1), host(25, 2)];
    // Less than `highWaterMark`, so that Node.js emits no 'drain'.
    const piece = Buffer.alloc(9000);
    let sent = 0;
    let isStopped = false;
    const server = createServer({ noDelay: true }, (client) => {
      client.on('error', () => {});
      const write = (): void => {
        if (isStopped) {
          client.end();
          return;
        }
        sent += piece.length;
        client.write(piece, () => setImmediate(write));
      };
      write();
    });
    server.listen(port, a);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    await switchboard().open(frontend(vip, pool(a)));
    const client = new TCPClient(vip);
    client.socket.pause();
    for (let before = -1; sent === 0 || sent > before; ) {
      before = sent;
      await quiet();
    }
    isStopped = true;
    const ended = once(client.socket, 'end');
    let received = 0;
    client.socket.on('data', (bytes) => {
      received += bytes.length;
    });
    client.socket.resume();
    await ended;
    expect(received).toBe(sent);
  });
});

describe('a UDP frontend', () => {
  it('keeps a client at its endpoint until it has been idle', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const [vip, a, b] = [host(20, 1), host(20, 2), host(20, 3)];
    await Promise.all([udpEndpoint(a), udpEndpoint(b)]);
    const options = { protocol: 'UDP', udpIdleTimeoutMs: 1000 } as const;
    await switchboard().open(frontend(vip, pool(a, b), options));
    const client = new UDPClient(vip);
    const first = await client.ask();
    for (let i = 0; i < 4; i += 1) {
      vi.advanceTimersByTime(999);
      expect(await client.ask()).toBe(first);
    }
    vi.advanceTimersByTime(1000);
    expect([first, await client.ask()].sort()).toEqual([a, b]);
  });

  it('stops using an endpoint immediately when it is removed', async () => {
    const [vip, a, b] = [host(21, 1), host(21, 2), host(21, 3)];
    await Promise.all([udpEndpoint(a), udpEndpoint(b)]);
    const board = switchboard();
    await board.open(frontend(vip, pool(a), { protocol: 'UDP' }));
    const client = new UDPClient(vip);
    expect(await client.ask()).toBe(a);
    board.update(frontend(vip, pool(b), { protocol: 'UDP', right: [pool(a, b)] }));
    expect(await client.ask()).toBe(a);
    board.update(frontend(vip, pool(b), { protocol: 'UDP' }));
    expect(await client.ask()).toBe(b);
  });

  it('drops datagrams that are not allowed, and continues after an endpoint that refuses', async () => {
    const [vip, gone, a] = [host(22, 1), host(22, 2), host(22, 3)];
    await udpEndpoint(a);
    const board = switchboard();
    await board.open(frontend(vip, pool(), { protocol: 'UDP' }));
    const client = new UDPClient(vip);
    expect(await client.mayAsk()).toBe('silence');
    board.update(frontend(vip, pool(gone, a), { protocol: 'UDP' }));
    let answer = '';
    for (let i = 0; i < 50 && answer !== a; i += 1) answer = await client.mayAsk();
    expect(answer).toBe(a);
    expect(await client.ask()).toBe(a);
  });
});

describe('a socket that cannot be opened', () => {
  it('is refused with the reason while another process uses the port', async () => {
    const [vip, a] = [host(30, 1), host(30, 2)];
    await Promise.all([tcpEndpoint(vip), udpEndpoint(vip)]);
    const board = switchboard();
    for (const protocol of ['TCP', 'UDP'] as const) {
      expect(await board.open(frontend(vip, pool(a), { protocol }))).toEqual({
        code: 'EADDRINUSE',
        message: `listen on ${protocol} ${vip}:${port}: address already in use (EADDRINUSE)`,
        isLasting: false,
      });
    }
    expect([...board.frontends('IPv4')]).toEqual([]);
  });

  it('names the capability that ports below 1024 need', async () => {
    const denied = Object.assign(new Error(), { code: 'EACCES', errno: -13 });
    vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server) {
      queueMicrotask(() => this.emit('error', denied));
      return this;
    });
    onTestFinished(() => void vi.restoreAllMocks());
    const hint = ': ports below 1024 need CAP_NET_BIND_SERVICE';
    for (const [number, said] of [
      [1023, hint],
      [1024, ''],
    ] as const) {
      const refusal = await switchboard().open(frontend(host(32, 1), pool(), { port: number }));
      expect(refusal?.message.replace(/.*EACCES\)/, '')).toBe(said);
    }
  });

  it('is refused permanently if the protocol is not supported', async () => {
    const refusal = await switchboard().open(frontend(host(31, 1), pool(), { protocol: 'SCTP' }));
    expect(refusal).toMatchObject({ code: 'EPROTONOSUPPORT', isLasting: true });
  });
});
