/** What a connection may do, and what it may not take from others. */
import type { Socket } from 'node:net';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Budget, Client } from '../../../../src/serve/http/client.ts';
import { ConnectionLimit } from '../../../../src/serve/http/connection-limit.ts';
import { Forwards } from '../../../../src/serve/http/forwards.ts';
import { HttpServer } from '../../../../src/serve/http/http-server.ts';
import { Payload, Payloads } from '../../../../src/serve/http/payloads.ts';
import { Probes } from '../../../../src/serve/http/probes.ts';
import { SharedMemory } from '../../../../src/serve/http/shared-memory.ts';
import { Turns } from '../../../../src/serve/http/turns.ts';
import type { Routes } from '../../../../src/serve/reply.ts';
import { freePort } from '../../free-port.ts';
import { fakeTimeouts, turnsUntil } from '../../turns.ts';
import { get, opened, probes, Raw } from './ports.ts';

const ok = { status: 200, headers: {}, body: 'well' };

/** A route that answers when the test lets it. */
function held() {
  const waiting: (() => void)[] = [];
  let most = 0;
  let asked = 0;
  const routes: Routes = {
    '/each': async () => {
      asked += 1;
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        most = Math.max(most, waiting.length);
      });
      return ok;
    },
  };
  return {
    routes,
    release: () => {
      for (const resolve of waiting.splice(0)) resolve();
    },
    get asked() {
      return asked;
    },
    get most() {
      return most;
    },
  };
}

function paths(routes: Routes, handling: 'each' | 'shared') {
  const handled = Object.fromEntries(Object.keys(routes).map((path) => [path, handling]));
  return { group: 'metrics', answers: { kind: 'paths', paths: handled }, routes } as const;
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** The server's sides of the connections to servers that are made from now on. */
function acceptedSockets(): readonly Socket[] {
  const net = process.getBuiltinModule('node:net');
  const sockets: Socket[] = [];
  const { createServer } = net;
  const spy = vi.spyOn(net, 'createServer').mockImplementation((...args: unknown[]) => {
    const server = Reflect.apply(createServer, net, args) as ReturnType<typeof createServer>;
    return server.on('connection', (socket) => sockets.push(socket));
  });
  onTestFinished(() => spy.mockRestore());
  return sockets;
}

describe('an HTTP connection', () => {
  it('gets its answers in order, one request at a time, regardless of how many it sends', async () => {
    const route = held();
    const raw = new Raw(await opened(paths(route.routes, 'each')));
    raw.send(get('/each').repeat(5));
    for (let answered = 1; answered <= 5; answered += 1) {
      while (route.asked < answered) await turns(1);
      await turns(20);
      expect(route.asked).toBe(answered);
      route.release();
      await raw.answered(answered);
    }
    expect(raw.statuses).toEqual([200, 200, 200, 200, 200]);
  });

  it('is not read while its request is answered', async () => {
    const sockets = acceptedSockets();
    const route = held();
    const raw = new Raw(await opened(paths(route.routes, 'each')));
    raw.send(get('/each').repeat(200_000));
    while (route.asked < 1) await turns(1);
    await turns(500);
    // One piece, which held the request. All of it has 7.6 MB.
    expect(sockets.map(({ bytesRead }) => bytesRead <= 64 * 1024)).toEqual([true]);
    route.release();
    await raw.closed;
  });

  it('that sends too far ahead gets one answer, and is closed', async () => {
    const raw = new Raw(await opened(probes));
    raw.send(get('/livez').repeat(5000));
    await raw.closed;
    expect(raw.statuses.length).toBeLessThanOrEqual(1);
  });

  it('is kept open for another request, closed on request, and answers HEAD without a body', async () => {
    const port = await opened(probes, { answer: () => ({ ...ok, body: 'body' }) });
    const raw = new Raw(port).send(get('/livez'));
    await raw.answered(1);
    raw.send('HEAD /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
    await raw.closed;
    expect(raw.statuses).toEqual([200, 200]);
    expect(raw.text.match(/Content-Length: 4\r\n/g)).toHaveLength(2);
    expect(raw.text.match(/\r\n\r\nbody/g)).toHaveLength(1);
    expect(raw.text.endsWith('\r\n\r\n')).toBe(true);
  });

  it('has its answer after 800 ms at most where nothing says whether the Node exists', async () => {
    fakeTimeouts();
    const asked = vi.fn(() => false);
    const raw = new Raw(await opened(probes, { nodeListed: asked })).send(get('/healthz'));
    await turnsUntil(() => asked.mock.calls.length > 0);
    await vi.advanceTimersByTimeAsync(799);
    expect([asked.mock.calls.length, raw.statuses]).toEqual([40, []]);
    await vi.advanceTimersByTimeAsync(1);
    expect(await raw.answered(1)).toEqual([200]);
  });

  it('may be half-closed while the answer is made', async () => {
    const route = held();
    const raw = new Raw(await opened(paths(route.routes, 'each')));
    raw.socket.end(get('/each'));
    while (route.asked < 1) await turns(1);
    route.release();
    await raw.closed;
    expect(raw.statuses).toEqual([200]);
  });

  it.each([
    ['\x16\x03\x01\x02', 400],
    [get('/livez', `X-Long: ${'x'.repeat(64 * 1024)}\r\n`), 431],
    [
      `POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n${'400\r\n'}${'x'.repeat(1024)}`.concat(
        '\r\n',
        `400\r\n${'x'.repeat(1024)}\r\n`.repeat(70),
      ),
      413,
    ],
  ])('that sends what is refused gets the reason, and is closed: %#', async (text, status) => {
    const raw = new Raw(await opened(probes)).send(text);
    await raw.closed;
    expect(raw.statuses).toEqual([status]);
    expect(raw.text).toContain('Connection: close\r\n');
  });

  it('sends its body after 100 Continue', async () => {
    const port = await opened(paths({ '/put': ({ body }) => ({ ...ok, body }) }, 'each'));
    const head =
      'PUT /put HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n';
    const raw = new Raw(port).send(head);
    while (!raw.text.includes('100 Continue')) await turns(1);
    raw.send('42');
    await raw.answered(2);
    while (!raw.text.endsWith('42')) await turns(1);
    expect(raw.statuses).toEqual([100, 200]);
  });
});

/** A socket that takes what is written when the test lets it. */
function paper(options: { held?: Budget; now: () => number; asked?: (client: Client) => void }) {
  const listeners = new Map<string, (piece?: Buffer) => void>();
  const written: string[] = [];
  const flushes: (() => void)[] = [];
  let isDestroyed = false;
  const socket = {
    remoteAddress: '192.0.2.1',
    on: (name: string, call: () => void) => listeners.set(name, call),
    cork: () => {},
    uncork: () => {},
    pause: () => {},
    resume: () => {},
    end: () => {},
    write: (text: string | Uint8Array, ...rest: unknown[]) => {
      written.push(Buffer.from(text).toString());
      const flushed = rest.at(-1);
      if (typeof flushed === 'function') flushes.push(flushed as () => void);
      return true;
    },
    destroy: () => {
      isDestroyed = true;
    },
  };
  const { asked = () => {}, held = new Budget(1000), now } = options;
  const client = new Client({
    socket: socket as unknown as ConstructorParameters<typeof Client>[0]['socket'],
    held,
    payloads: new Payloads(1000),
    now,
    wallMs: () => 0,
    asked,
    closed: () => {},
  });
  const push = (text: string): void => listeners.get('data')!(Buffer.from(text));
  const flush = (): void => {
    for (const call of flushes.splice(0)) call();
  };
  return { client, push, flush, written, held, isDestroyed: () => isDestroyed };
}

describe('a slow HTTP connection', () => {
  const unanswered = { status: 503, headers: {}, body: '' };

  it('that sends nothing, or stops within a request, is closed', () => {
    const time = { ms: 0 };
    const now = () => time.ms;
    const [silent, half] = [paper({ now }), paper({ now })];
    half.push('GET / HT');
    time.ms = 9999;
    for (const { client } of [silent, half]) client.check(time.ms, unanswered);
    expect([silent.isDestroyed(), half.written]).toEqual([false, []]);
    time.ms = 10_000;
    for (const { client } of [silent, half]) client.check(time.ms, unanswered);
    expect(silent.isDestroyed()).toBe(true);
    expect(half.written[0]).toMatch(/^HTTP\/1.1 408 /);
  });

  it('that sends a request in small parts does not get more time for each of them', () => {
    const time = { ms: 0 };
    const { client, push, written } = paper({ now: () => time.ms });
    push('G');
    for (time.ms = 1000; time.ms < 10_000; time.ms += 1000) push('E');
    client.check(10_000, unanswered);
    expect(written[0]).toMatch(/^HTTP\/1.1 408 /);
  });

  it('that does not read its answer is closed', () => {
    const time = { ms: 0 };
    const { client, push, isDestroyed } = paper({ now: () => time.ms });
    push(get('/'));
    client.reply(ok);
    client.check(59_999, unanswered);
    expect(isDestroyed()).toBe(false);
    client.check(60_000, unanswered);
    expect(isDestroyed()).toBe(true);
  });

  it.each([
    ['', 'Keep-Alive: timeout=5', 5000],
    ['Connection: close\r\n', 'Connection: close', 1000],
  ])('that has its answer is closed if nothing follows: %j', (field, says, afterMs) => {
    const { client, flush, isDestroyed, push, written } = paper({ now: () => 0 });
    push(get('/', field));
    client.reply(ok);
    flush();
    expect(written[0]).toContain(says);
    client.check(afterMs - 1, unanswered);
    expect(isDestroyed()).toBe(false);
    client.check(afterMs, unanswered);
    expect(isDestroyed()).toBe(true);
  });

  it('gets status 503 if the proxy does not answer', () => {
    const { client, push, written } = paper({ now: () => 0 });
    push(get('/'));
    client.await(60_000);
    client.check(60_000, unanswered);
    expect(written[0]).toMatch(/^HTTP\/1.1 503 /);
  });

  it('uses no more request memory than the common budget, and releases it', () => {
    const held = new Budget(1000);
    const now = () => 0;
    const [one, two] = [paper({ held, now }), paper({ held, now })];
    one.push(`GET /${'x'.repeat(900)}`);
    expect(held.used).toBe(905);
    two.push(`GET /${'x'.repeat(900)}`);
    expect(two.written[0]).toMatch(/^HTTP\/1.1 503 /);
    one.client.destroy();
    two.client.destroy();
    expect(held.used).toBe(0);
  });
});

describe('the event loop behind the HTTP server', () => {
  it('gets a limited number of requests at a time, and none of a closed connection', async () => {
    const route = held();
    const port = await opened(paths(route.routes, 'each'));
    const raws = Array.from({ length: 12 }, () => new Raw(port).send(get('/each')));
    while (route.asked < 4) await turns(1);
    await turns(50);
    expect(route.asked).toBe(4);
    for (const raw of raws.slice(6)) raw.socket.destroy();
    await Promise.all(raws.slice(6).map(({ closed }) => closed));
    let isOver = false;
    const over = Promise.all(raws.slice(0, 6).map((raw) => raw.answered(1))).then(() => {
      isOver = true;
    });
    while (!isOver) {
      route.release();
      await turns(50);
    }
    await over;
    expect(route.most).toBeLessThanOrEqual(4);
  });

  it.each(['each', 'shared'] as const)(
    'keeps no request (%s) of a connection that it has closed',
    async (handling) => {
      const asked: number[] = [];
      const listening = Promise.withResolvers<void>();
      const server = new HttpServer({
        send: (message) => {
          if (message.kind === 'opened') listening.resolve();
          if (message.kind === 'request') asked.push(message.request.id);
        },
        probes: new Probes(new SharedMemory(), { ask: () => {} }),
        memory: new SharedMemory(),
        // The rate of requests is used up soon, and does not recover.
        now: () => 0,
      });
      onTestFinished(() => server.close());
      const place = { host: '127.0.0.1', port: await freePort() };
      const answers = { kind: 'paths', paths: { '/path': handling } } as const;
      server.receive({ kind: 'open', listener: 1, place, group: 'metrics', answers });
      await listening.promise;
      let closed = 0;
      const connections = 600;
      for (let sent = 0; sent < connections; sent += 1) {
        const raw = new Raw(place.port).send(get('/path'));
        void raw.closed.then(() => {
          closed += 1;
        });
        await new Promise((resolve) => raw.socket.once('connect', resolve));
        await turns(2);
      }
      while (closed < connections - 256) await turns(1);
      await turns(20);
      const { use } = server;
      expect(use.connections).toBe(256);
      expect(use.waiting).toBeLessThanOrEqual(use.connections);
      expect(asked.length).toBeLessThanOrEqual(4);
    },
  );

  it('makes one answer for all clients of a shared path', async () => {
    let made = 0;
    let finish = (): void => {};
    const routes: Routes = {
      '/metrics': async () => {
        made += 1;
        const text = `text ${made}`;
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
        return { ...ok, body: text };
      },
    };
    const sockets = acceptedSockets();
    const port = await opened(paths(routes, 'shared'));
    const raws = Array.from({ length: 20 }, () => new Raw(port).send(get('/metrics')));
    // It would make another answer for requests that come after the first one is finished.
    while (sockets.filter(({ bytesRead }) => bytesRead > 0).length < 20) await turns(1);
    await turns(50);
    expect(made).toBe(1);
    finish();
    await Promise.all(raws.map((raw) => raw.answered(1)));
    for (const raw of raws) {
      while (!raw.text.endsWith('text 1')) await turns(1);
    }
    expect(made).toBe(1);
    raws[0]!.send(get('/metrics'));
    while (made < 2) await turns(1);
    finish();
    expect(await raws[0]!.answered(2)).toEqual([200, 200]);
  });

  it('makes a shared answer at most once a second', () => {
    const sent: number[] = [];
    const forwards = new Forwards({ now: () => 0, send: ({ id }) => sent.push(id) });
    onTestFinished(() => forwards.close());
    const asking = () => {
      const { client, push } = paper({ now: () => 0 });
      push(get('/metrics'));
      forwards.add(client, 1, 'shared');
      return client;
    };
    const first = asking();
    expect(sent).toEqual([1]);
    forwards.replied(1, ok);
    expect(first.isAsking).toBe(false);
    expect(asking().isAsking).toBe(true);
    expect(sent).toEqual([1]);
  });

  it.each([
    [100, 999, 1000],
    [300, 1499, 1500],
    [3000, 7999, 8000],
  ])('rests after a shared answer that took %i ms', (tookMs, early, due) => {
    const askedAgain = (atMs: number): boolean => {
      const time = { ms: 0 };
      const now = () => time.ms;
      const sent: number[] = [];
      const forwards = new Forwards({ now, send: ({ id }) => sent.push(id) });
      const ask = (): void => {
        const { client, push } = paper({ now });
        push(get('/metrics'));
        forwards.add(client, 1, 'shared');
      };
      ask();
      time.ms = tookMs;
      forwards.replied(1, ok);
      time.ms = atMs;
      ask();
      forwards.close();
      return sent.length === 2;
    };
    expect([early, due].map(askedAgain)).toEqual([false, true]);
  });

  it.each([
    ['each', 60_000],
    ['shared', 60_000],
    ['remote', 60_000],
    ['long', 330_000],
  ] as const)('has a time to answer, for requests %s of %i ms', async (handling, answerMs) => {
    const forwards = new Forwards({ now: () => 0, send: () => {} });
    onTestFinished(() => forwards.close());
    const { client, push, written } = paper({ now: () => 0 });
    push(get('/metrics'));
    forwards.add(client, 1, handling);
    await turns(2);
    forwards.check(answerMs - 1);
    expect([forwards.underWay, written]).toEqual([1, []]);
    forwards.check(answerMs);
    expect(forwards.underWay).toBe(0);
    expect(written[0]).toMatch(/^HTTP\/1.1 503 /);
  });
});

describe('peers of the HTTP server', () => {
  it('take turns, and no turn of the loop serves more than its number', async () => {
    const taken: string[][] = [];
    let now: string[] = [];
    const queue = new Turns<string>({
      perTurn: 4,
      perSecond: 1000,
      now: () => 0,
      take: (item) => now.push(item),
    });
    for (let i = 0; i < 10; i += 1) queue.add('flood', `flood ${i}`);
    queue.add('kubelet', 'probe');
    while (taken.flat().length < 11) {
      await turns(1);
      taken.push(now);
      now = [];
    }
    expect(taken.flat().indexOf('probe')).toBe(1);
    expect(Math.max(...taken.map(({ length }) => length))).toBe(4);
  });

  it('get a limited number of requests per second', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const time = { ms: 0 };
    const taken: number[] = [];
    const queue = new Turns<number>({
      perTurn: 100,
      perSecond: 50,
      now: () => time.ms,
      take: (item) => taken.push(item),
    });
    for (let i = 0; i < 100; i += 1) queue.add('a', i);
    await turns(5);
    expect(taken).toHaveLength(5);
    time.ms = 100;
    vi.advanceTimersByTime(19);
    expect(taken).toHaveLength(5);
    vi.advanceTimersByTime(1);
    await turns(5);
    expect(taken).toHaveLength(10);
    queue.close();
  });

  it('lose their own connections if there are too many, the oldest first', () => {
    const limit = new ConnectionLimit(4);
    const closed: string[] = [];
    const member = (peer: string, name: string) => ({
      peer,
      destroy: () => closed.push(name),
    });
    limit.add(member('kubelet', 'probe'));
    for (let i = 0; i < 6; i += 1) limit.add(member('flood', `flood ${i}`));
    expect(closed).toEqual(['flood 0', 'flood 1', 'flood 2']);
    const many = new ConnectionLimit(2);
    for (let i = 0; i < 4; i += 1) many.add(member(`peer ${i}`, `of peer ${i}`));
    expect(closed.slice(3)).toEqual(['of peer 0', 'of peer 1']);
    expect([limit.size, many.size]).toEqual([4, 2]);
  });
});

describe('answers that are not read', () => {
  it('are bounded: the clients with the oldest ones are disconnected', () => {
    const payloads = new Payloads(100);
    const closed: string[] = [];
    const reader = (name: string) => ({ destroy: () => closed.push(name) });
    const shared = new Payload(Buffer.alloc(60));
    payloads.sending(shared, reader('first'));
    payloads.sending(shared, reader('second'));
    expect(payloads.bytes).toBe(60);
    const next = new Payload(Buffer.alloc(50));
    const last = reader('third');
    payloads.sending(next, last);
    expect([closed, payloads.bytes]).toEqual([['first', 'second'], 50]);
    payloads.done(next, last);
    expect(payloads.bytes).toBe(0);
    // One answer is never too large.
    payloads.sending(new Payload(Buffer.alloc(1000)), last);
    expect(closed).toHaveLength(2);
  });
});
