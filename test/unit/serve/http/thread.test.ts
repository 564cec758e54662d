/** The HTTP thread together with an event loop. */
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { HealthFacts } from '../../../../src/serve/health-answer.ts';
import { HttpThread, type Listening } from '../../../../src/serve/http/http-thread.ts';
import { openThread } from '../../../../src/serve/http/open-thread.ts';
import { Probes } from '../../../../src/serve/http/probes.ts';
import { machineMs, SharedMemory } from '../../../../src/serve/http/shared-memory.ts';
import type { Wire, WireEvents } from '../../../../src/serve/http/wire.ts';
import { noFacts } from '../../../fake/http-here.ts';
import { freePort } from '../../free-port.ts';
import { fakeTimeouts, turnsUntil } from '../../turns.ts';

class World {
  facts: HealthFacts = { ...noFacts, monotonicMs: 0 };
  readonly ended: string[] = [];
  readonly threads: { wire: Wire; events: WireEvents }[] = [];
  readonly http = new HttpThread({
    open: (memory, events) => {
      const wire = openThread(memory, events);
      this.threads.push({ wire, events });
      return wire;
    },
    health: { facts: () => this.facts },
    ended: (error) => this.ended.push(error.message),
  });
  /** Is called whenever the port is open. */
  opened = (): void => {};

  constructor() {
    onTestFinished(() => this.http.close());
  }

  async probes(): Promise<number> {
    const port = await freePort();
    await new Promise<void>((resolve, reject) => {
      this.opened = resolve;
      this.listen(port, reject);
    });
    return port;
  }

  listen(port: number, failed: (error: Error) => void): Listening {
    const place = { host: '127.0.0.1', port };
    const opened = (): void => this.opened();
    return this.http.listen({
      place,
      group: 'healthz',
      answers: { kind: 'probes' },
      opened,
      failed,
    });
  }
}

async function get(port: number, path: string) {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, body: await response.json() };
}

describe('the HTTP thread', () => {
  it('answers probes while the event loop is blocked', async () => {
    const port = await new World().probes();
    const answer = new Int32Array(new SharedArrayBuffer(4));
    const asker = new Worker(
      `const { workerData: { answer, port } } = require('node:worker_threads');
       fetch('http://127.0.0.1:' + port + '/livez').then(({ status }) => {
         Atomics.store(answer, 0, status);
         Atomics.notify(answer, 0);
       });`,
      { eval: true, workerData: { answer, port } },
    );
    // This thread does nothing else until the answer is there.
    expect(Atomics.wait(answer, 0, 0, 100_000)).not.toBe('timed-out');
    expect(Atomics.load(answer, 0)).toBe(200);
    await asker.terminate();
  });

  it('uses changed facts, and counts its answers', async () => {
    const world = new World();
    const port = await world.probes();
    expect((await get(port, '/healthz')).status).toBe(200);
    world.facts = { ...world.facts, nodeEligible: false };
    world.http.changed();
    let [answered, answer] = [1, await get(port, '/healthz')];
    // An event loop that takes longer than 50 ms is not waited for.
    for (; answer.status === 200; answered += 1) answer = await get(port, '/healthz');
    expect(answer).toMatchObject({ status: 503, body: { nodeEligible: false, healthy: true } });
    expect((await get(port, '/livez')).status).toBe(200);
    const counts = world.http.memory.takeCounts().map(({ count }) => count);
    expect(counts).toEqual([answered, 1, 1, 0]);
    const none = world.http.memory.takeCounts().map(({ count }) => count);
    expect(none).toEqual([0, 0, 0, 0]);
  });

  it('reports that it cannot listen, and why', async () => {
    const world = new World();
    const port = await world.probes();
    const error = await new Promise<Error>((failed) => world.listen(port, failed));
    expect(error).toMatchObject({ code: 'EADDRINUSE' });
    expect(error.message).toContain('address already in use');
  });

  it('is started again with the same ports after it has ended', async () => {
    const world = new World();
    const port = await world.probes();
    const again = new Promise<void>((resolve) => {
      world.opened = resolve;
    });
    const [{ events, wire } = expect.fail('no thread')] = world.threads;
    wire.close();
    // Its port is free when it has ended.
    await turnsUntil(() =>
      get(port, '/livez').then(
        () => false,
        () => true,
      ),
    );
    fakeTimeouts();
    events.ended(new Error('out of memory'));
    await vi.advanceTimersByTimeAsync(999);
    expect(world.threads.length).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    await again;
    expect([world.ended, world.threads.length]).toEqual([['out of memory'], 2]);
    expect((await get(port, '/livez')).status).toBe(200);
  });

  it('forwards what the event loop must answer', async () => {
    const world = new World();
    const port = await freePort();
    const asked: object[] = [];
    await new Promise<void>((opened, failed) => {
      world.http.listen({
        place: { host: '127.0.0.1', port },
        group: 'metrics',
        answers: { kind: 'paths', paths: { '/a': 'each', '/b': 'each' } },
        routes: {
          '/a': async ({ query, ...rest }) => {
            asked.push({ ...rest, query: query.get('x') });
            return { status: 200, headers: { 'X-A': 'a' }, body: Uint8Array.of(49) };
          },
          '/b': () => {
            throw new Error('it failed');
          },
        },
        opened,
        failed,
      });
    });
    const url = `http://127.0.0.1:${port}`;
    const headers = {
      accept: 'text/x',
      'accept-encoding': 'br',
      authorization: 'Bearer y',
    };
    const response = await fetch(`${url}/a?x=1`, { method: 'PUT', body: 'body', headers });
    expect([response.headers.get('x-a'), await response.text()]).toEqual(['a', '1']);
    expect(asked).toEqual([
      {
        method: 'PUT',
        query: '1',
        peer: '127.0.0.1',
        host: `127.0.0.1:${port}`,
        accept: 'text/x',
        acceptEncoding: 'br',
        authorization: 'Bearer y',
        body: 'body',
      },
    ]);
    const failed = await fetch(`${url}/b`);
    expect([failed.status, await failed.text()]).toEqual([500, 'it failed\n']);
    const absent = await fetch(`${url}/toString`);
    expect([absent.status, await absent.text()]).toEqual([404, '404 page not found\n']);
  });
});

describe('a blocked event loop', () => {
  function watched() {
    const time = { ms: machineMs() };
    const memory = new SharedMemory();
    memory.publish(noFacts);
    const asked: number[] = [];
    const ask = (): void => void asked.push(time.ms);
    const probes = new Probes(memory, { ask, now: () => time.ms });
    return {
      asked,
      memory,
      probes,
      pass: (seconds: number) => {
        for (let i = 0; i < seconds; i += 1) {
          time.ms += 1000;
          probes.tick();
        }
      },
      jump: (ms: number) => {
        time.ms += ms;
        probes.tick();
      },
    };
  }

  it('makes the proxy unhealthy 30 s after the first probe that it did not answer', () => {
    const { pass, probes } = watched();
    pass(100);
    expect([probes.answer('/livez').status, probes.isWaiting]).toEqual([200, false]);
    probes.refresh(() => {});
    pass(29);
    expect(probes.answer('/livez').status).toBe(200);
    pass(1);
    expect([probes.healthy, probes.answer('/livez').status]).toEqual([false, 503]);
    expect(JSON.parse(probes.answer('/livez').body)).toMatchObject({
      healthy: false,
      eventLoopStuckSeconds: 30,
    });
    probes.turned();
    expect([probes.healthy, probes.answer('/livez').status]).toEqual([true, 200]);
  });

  it('is not reported if the whole process was stopped', () => {
    const { jump, probes } = watched();
    jump(1000);
    probes.refresh(() => {});
    jump(3_600_000);
    expect([probes.isWaiting, probes.answer('/livez').status]).toEqual([true, 200]);
  });

  it('is pinged when probes arrive, at most once a second, and not again before it has answered', () => {
    const { asked, jump, probes } = watched();
    const answered: number[] = [];
    const probe = (id: number): void => probes.refresh(() => answered.push(id));
    probe(1);
    expect([asked.length, answered]).toEqual([0, [1]]);
    jump(1000);
    probe(2);
    probe(3);
    expect([asked.length, answered]).toEqual([1, [1]]);
    probes.turned();
    probe(4);
    jump(999);
    probe(5);
    expect([asked.length, answered]).toEqual([1, [1, 2, 3, 4, 5]]);
    jump(1);
    probe(6);
    jump(10_000);
    // It does not answer: probes no longer wait for it.
    probe(7);
    expect([asked.length, answered]).toEqual([2, [1, 2, 3, 4, 5, 7]]);
    probes.turned();
  });

  it('is pinged earlier when its facts have changed', () => {
    const { asked, jump, memory, probes } = watched();
    jump(1);
    memory.outdate();
    probes.refresh(() => {});
    expect(asked).toHaveLength(1);
    memory.publish(noFacts);
    probes.turned();
    probes.refresh(() => {});
    expect(asked).toHaveLength(1);
  });

  it('publishes facts a second after the first change, also when no probe arrives', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    let facts: HealthFacts = { ...noFacts, overLimit: 1 };
    const open = (): Wire => ({ send: () => {}, close: () => {} });
    const http = new HttpThread({ open, health: { facts: () => facts }, ended: () => {} });
    const place = { host: '127.0.0.1', port: 1, ipv6Only: false };
    const answers = { kind: 'service', namespace: 'ns', name: 'web', slot: 0 } as const;
    const [opened, failed] = [() => {}, () => {}];
    http.listen({ place, group: 'service health', answers, opened, failed });
    const published = () => http.memory.published().facts.overLimit;
    facts = { ...noFacts, overLimit: 2 };
    http.changed();
    vi.advanceTimersByTime(999);
    http.changed();
    expect([published(), http.memory.isOutdated]).toEqual([1, true]);
    vi.advanceTimersByTime(1);
    expect([published(), http.memory.isOutdated]).toEqual([2, false]);
    facts = { ...noFacts, overLimit: 3 };
    http.changed();
    vi.advanceTimersByTime(1000);
    expect(published()).toBe(3);
    http.close();
  });

  it('publishes the current facts when a probe arrives, without a timer', async () => {
    const world = new World();
    const port = await world.probes();
    world.facts = { ...world.facts, nodeEligible: false };
    // Facts of the start are new enough for a second.
    while ((await get(port, '/healthz')).status !== 503);
  });

  it('delays a probe by at most 50 ms', () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { jump, probes } = watched();
    let answered = 0;
    jump(1000);
    probes.refresh(() => {
      answered += 1;
    });
    vi.advanceTimersByTime(49);
    expect(answered).toBe(0);
    vi.advanceTimersByTime(1);
    expect([answered, probes.isWaiting]).toEqual([1, true]);
    probes.turned();
    expect([answered, probes.isWaiting]).toEqual([1, false]);
  });
});

describe('the memory that the HTTP thread shares', () => {
  it('shows an overdue sync, also while nothing new is published', () => {
    const memory = new SharedMemory();
    const family = { family: 'IPv4', queuedMs: 1000 };
    memory.publish({ ...noFacts, monotonicMs: 1000, families: [family] });
    const time = { ms: memory.published().atMs };
    const probes = new Probes(memory, { ask: () => {}, now: () => time.ms });
    time.ms += 59_999;
    expect(probes.healthy).toBe(true);
    time.ms += 2;
    expect(probes.healthy).toBe(false);
  });

  it('contains reasons of any length', () => {
    const memory = new SharedMemory();
    const lists = [{ resource: 'services', missingMs: 1, failure: 'x'.repeat(100_000) }];
    memory.publish({ ...noFacts, lists });
    expect(memory.published().facts.lists[0]?.failure).toBe('too long to be shown');
  });
});
