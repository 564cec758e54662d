/** Floods of requests: what a connection, and all of them, can make the process do. */
import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { HttpThread } from '../../../src/serve/http/http-thread.ts';
import { openThread } from '../../../src/serve/http/open-thread.ts';
import type { Routes } from '../../../src/serve/reply.ts';
import { httpHere, noFacts } from '../../fake/http-here.ts';

const ends: (() => void)[] = [];

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

type Group = 'healthz' | 'metrics';

/** Listens at a free port of the loopback address. */
async function listening(http: HttpThread, routes?: Routes): Promise<number> {
  ends.push(() => http.close());
  const port = await freePort();
  await new Promise<void>((resolve, reject) => {
    const answers =
      routes === undefined
        ? { kind: 'probes' as const }
        : { kind: 'paths' as const, paths: Object.fromEntries(each(routes)) };
    const group: Group = routes === undefined ? 'healthz' : 'metrics';
    http.listen({
      place: { host: '127.0.0.1', port },
      group,
      answers,
      ...(routes === undefined ? {} : { routes }),
      opened: resolve,
      failed: reject,
    });
  });
  return port;
}

function each(routes: Routes): (readonly [string, 'each'])[] {
  return Object.keys(routes).map((path) => [path, 'each']);
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net');
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return (address as { port: number }).port;
}

const request = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

describe('the HTTP thread', () => {
  it('answers /livez while the event loop of the process is blocked', async () => {
    const http = new HttpThread({
      open: openThread,
      facts: () => ({ ...noFacts, monotonicMs: 0 }),
      ended: (error) => {
        throw error;
      },
    });
    const port = await listening(http);
    const script = `
      const statuses = [];
      for (let i = 0; i < 20; i += 1) {
        const answer = await fetch('http://127.0.0.1:${port}/livez');
        await answer.text();
        statuses.push(answer.status);
      }
      console.log(new Set(statuses).size, statuses.length);`;
    // It blocks this thread until the client has all its answers, or gives up.
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ['--input-type=module', '--eval', script],
      { encoding: 'utf8', timeout: 20_000 },
    );
    expect(stdout + stderr).toBe('1 20\n');
  });
});

describe('requests that are pipelined', () => {
  it('are handled one after the other, and answered in their order', async () => {
    const all = 200;
    const now = { handled: 0, most: 0, count: 0 };
    const routes: Routes = {
      '/slow': async () => {
        now.handled += 1;
        now.count += 1;
        now.most = Math.max(now.most, now.handled);
        const number = now.count;
        await sleep(1);
        now.handled -= 1;
        return { status: 200, headers: {}, body: `<${number}>` };
      },
    };
    const port = await listening(httpHere(), routes);
    const socket = connect(port, '127.0.0.1');
    ends.push(() => socket.destroy());
    let text = '';
    const numbers = (): number[] => [...text.matchAll(/<(\d+)>/g)].map(([, n]) => Number(n));
    const complete = new Promise<void>((resolve, reject) => {
      socket.setEncoding('utf8').on('data', (piece) => {
        text += piece;
        if (numbers().length === all) resolve();
      });
      socket.on('close', () => reject(new Error(`closed after ${numbers().length} answers`)));
    });
    socket.write(request('/slow').repeat(all));
    await complete;
    expect(now.most).toBe(1);
    expect(numbers()).toEqual(Array.from({ length: all }, (_, i) => i + 1));
  });

  it('on many connections never make the event loop handle more than a few at a time', async () => {
    const now = { handled: 0, most: 0 };
    const routes: Routes = {
      '/slow': async () => {
        now.handled += 1;
        now.most = Math.max(now.most, now.handled);
        await sleep(2);
        now.handled -= 1;
        return { status: 200, headers: {}, body: 'done' };
      },
    };
    const port = await listening(httpHere(), routes);
    const answered = Array.from({ length: 64 }, () => {
      const socket = connect(port, '127.0.0.1');
      ends.push(() => socket.destroy());
      socket.write(request('/slow').repeat(1600));
      return new Promise((resolve) => socket.once('data', resolve));
    });
    await Promise.all(answered);
    expect(now.most).toBeLessThanOrEqual(4);
    expect(now.most).toBeGreaterThan(1);
  });
});
