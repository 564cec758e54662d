/** TLS of the port for readers: its certificate, and what clients may cost. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { HttpServer } from '../../../../src/serve/http/http-server.ts';
import { Probes } from '../../../../src/serve/http/probes.ts';
import { SharedMemory } from '../../../../src/serve/http/shared-memory.ts';
import { selfSigned } from '../../../../src/serve/readers/read-server.ts';
import { freePort } from '../../free-port.ts';
import { get, Raw } from '../http/ports.ts';

const certificate = selfSigned('node-a');

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A server of /path. Its clock moves where the test says so. */
async function opened(now = () => performance.now(), isAnswering = true) {
  const listening = Promise.withResolvers<void>();
  const asked: number[] = [];
  const server: HttpServer = new HttpServer({
    send: (message) => {
      if (message.kind === 'opened') listening.resolve();
      if (message.kind !== 'request') return;
      const { id } = message.request;
      asked.push(id);
      if (!isAnswering) return;
      server.receive({ kind: 'reply', id, reply: { status: 200, headers: {}, body: 'well' } });
    },
    probes: new Probes(new SharedMemory(), { ask: () => {} }),
    memory: new SharedMemory(),
    now,
  });
  onTestFinished(() => server.close());
  const place = { host: '127.0.0.1', port: await freePort() };
  const answers = { kind: 'paths', paths: { '/path': 'remote' } } as const;
  server.receive({ kind: 'open', listener: 1, place, certificate, group: 'read', answers });
  await listening.promise;
  return { asked, port: place.port, server };
}

function secure(port: number, options: ConnectionOptions = {}): TLSSocket {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options });
  onTestFinished(() => void socket.destroy());
  return socket.on('error', () => {});
}

function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()));
}

describe('the certificate that a process makes', () => {
  it.each(['n', 'node-a', 'n'.repeat(64)])('is signed by its own key, and valid: %s', (name) => {
    for (let i = 0; i < 20; i += 1) {
      const { cert, key } = selfSigned(name);
      const read = new X509Certificate(cert);
      expect([read.subject, read.verify(read.publicKey)]).toEqual([`CN=${name}`, true]);
      expect(read.serialNumber).toMatch(/^[4-7][0-9A-F]{31}$/);
      expect([read.validFrom, read.validTo]).toEqual([
        'Jan  1 00:00:00 2020 GMT',
        'Dec 31 23:59:59 9999 GMT',
      ]);
      expect(key).toMatch(/^-----BEGIN PRIVATE KEY-----\n/);
    }
  });

  it('is accepted by a client that has it as its authority', async () => {
    const { port } = await opened();
    const socket = secure(port, {
      ca: certificate.cert,
      rejectUnauthorized: true,
      checkServerIdentity: () => undefined,
    });
    await once(socket, 'secureConnect');
    expect([socket.authorized, socket.getProtocol()]).toEqual([true, 'TLSv1.3']);
    socket.write(get('/path'));
    expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1.1 200 /);
  });
});

describe('a client of the TLS port', () => {
  it('that speaks no TLS, or an older one, is disconnected, and others are served', async () => {
    const { port } = await opened();
    const plain = new Raw(port).send(get('/path'));
    const old = secure(port, { maxVersion: 'TLSv1.2' });
    await Promise.all([plain.closed, closed(old)]);
    expect(plain.statuses).toEqual([]);
    const socket = secure(port);
    socket.write(get('/path', 'Connection: close\r\n'));
    await once(socket, 'secureConnect');
    socket.resume();
    await closed(socket);
  });

  it('is disconnected when its handshake is not complete after five seconds', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    let ms = 0;
    const { port, server } = await opened(() => ms);
    const silent = new Raw(port);
    await once(silent.socket, 'connect');
    // Its handshake comes after that of the silent one, from the same address.
    const other = secure(port);
    await once(other, 'secureConnect');
    for (const [atMs, connections] of [
      [4999, 2],
      [5000, 1],
    ] as const) {
      ms = atMs;
      vi.advanceTimersByTime(1000);
      if (connections < 2) await silent.closed;
      await turns(50);
      expect([atMs, server.use.connections]).toEqual([atMs, connections]);
    }
    other.write(get('/path'));
    expect(String((await once(other, 'data'))[0])).toMatch(/^HTTP\/1.1 200 /);
  });

  it('has a handshake only at a limited rate', async () => {
    let ms = 0;
    const { port } = await opened(() => ms);
    let secured = 0;
    for (let i = 0; i < 20; i += 1) secure(port).once('secureConnect', () => (secured += 1));
    while (secured < 5) await turns(1);
    await turns(50);
    expect(secured).toBe(5);
    ms = 20;
    while (secured < 6) await turns(1);
    await turns(50);
    expect(secured).toBe(6);
  });

  it('that opens many connections loses its own, also before their handshakes, and no other’s', async () => {
    const { port, server } = await opened(() => 0);
    const other = new Raw(port, '127.0.0.2');
    await once(other.socket, 'connect');
    const raws: Raw[] = [];
    for (let i = 0; i < 100; i += 1) {
      const raw = new Raw(port);
      await once(raw.socket, 'connect');
      raws.push(raw);
    }
    await Promise.all(raws.slice(0, 37).map(({ closed: gone }) => gone));
    await turns(50);
    expect(server.use.connections).toBe(64);
    expect([other, ...raws.slice(37)].filter(({ socket }) => socket.closed)).toEqual([]);
    server.receive({ kind: 'close', listener: 1 });
    await Promise.all([other, ...raws].map(({ closed: gone }) => gone));
    expect(server.use.connections).toBe(0);
  });

  it('waits while four requests of any clients are not answered', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    let ms = 0;
    const { asked, port, server } = await opened(() => ms, false);
    const sockets = Array.from({ length: 5 }, () => secure(port));
    await Promise.all(sockets.map((socket) => once(socket, 'secureConnect')));
    for (const socket of sockets) socket.write(get('/path'));
    while (server.use.underWay + server.use.waiting < 5) await turns(1);
    for (let i = 0; i < 20; i += 1) {
      ms += 100;
      vi.advanceTimersByTime(100);
      await turns(10);
    }
    expect(asked).toHaveLength(4);
  });

  it('gets answers at a limited rate, whoever asks', async () => {
    let ms = 0;
    const { asked, port } = await opened(() => ms);
    const sockets = [secure(port), secure(port), secure(port)];
    await Promise.all(sockets.map((socket) => once(socket, 'secureConnect')));
    for (const socket of sockets) socket.write(get('/path'));
    while (asked.length < 1) await turns(1);
    await turns(50);
    expect(asked).toHaveLength(1);
    for (const [atMs, count] of [
      [99, 1],
      [100, 2],
      [5000, 3],
    ] as const) {
      ms = atMs;
      while (asked.length < count) await turns(1);
      await turns(50);
      expect([atMs, asked.length]).toEqual([atMs, count]);
    }
  });
});
