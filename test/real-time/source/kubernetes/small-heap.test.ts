/** A tenant with more Services than the heap of the process has room for. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import type { FakeApiServer } from '../../../fake/api-server.ts';
import { until } from '../../until.ts';
import { startServer } from './setup.ts';

const main = fileURLToPath(new URL('small-heap.ts', import.meta.url));
const heapMegabytes = 32;
/** Records of three quarters of them need all of that heap. */
const services = 40_000;

function setService({ store }: FakeApiServer, namespace: string, i: number, port = 80): void {
  const clusterIP = `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
  const spec = { clusterIP, clusterIPs: [clusterIP], ports: [{ name: 'http', port }] };
  const metadata = { namespace, name: `web-${i}`, uid: `${namespace}-${i}` };
  store.apply({ kind: 'Service', metadata, spec });
}

interface Follower {
  readonly process: ChildProcess;
  readonly lines: Record<string, unknown>[];
}

function follow(server: FakeApiServer, how: 'guarded' | 'unguarded'): Follower {
  const flags = [`--max-old-space-size=${heapMegabytes}`, '--max-semi-space-size=1'];
  const child = spawn(process.execPath, [...flags, main, server.url, how], {
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const lines: Record<string, unknown>[] = [];
  createInterface(child.stdout).on('line', (line) => lines.push(JSON.parse(line)));
  return { process: child, lines };
}

async function fullServer(): Promise<FakeApiServer> {
  const server = await startServer({ bookmarkMs: 1000 });
  for (let i = 0; i < services; i += 1) setService(server, 'tenant', i);
  setService(server, 'victim', 200_000);
  return server;
}

it('without the guard a tenant ends the process', async () => {
  const server = await fullServer();
  const { lines, process: child } = follow(server, 'unguarded');
  const [code, signal] = await once(child, 'exit');
  expect([code, signal]).toEqual([null, 'SIGABRT']);
  expect(lines.filter((line) => 'synced' in line)).toEqual([]);
});

it('with it the tenant has fewer Services until it asks for less, and others have all', async () => {
  const server = await fullServer();
  const { lines, process: child } = follow(server, 'guarded');
  const last = (key: string) => lines.findLast((line) => key in line);
  await until('all are listed', () => last('synced') !== undefined);
  const { leftOut, of, services: kept } = last('synced')!.synced as Record<string, number>;
  expect(kept! + leftOut!).toBe(services + 1);
  expect(of).toEqual([['tenant', leftOut]]);
  expect(kept).toBeGreaterThan(1000);
  expect(last('victim')).toEqual({ victim: 'web-200000', port: 80, taken: 'changed' });

  setService(server, 'victim', 200_000, 81);
  await until('a change', () => last('victim')?.port === 81);
  setService(server, 'victim', 200_001);
  await until('a new one', () => last('victim')?.victim === 'web-200001');
  expect(last('victim')).toMatchObject({ taken: 'changed' });

  for (let i = 1000; i < services; i += 1) server.store.delete('services', `tenant/web-${i}`);
  const asked = setInterval(() => child.stdin!.write('\n'), 100);
  onTestFinished(() => clearInterval(asked));
  await until('room', () => last('services')?.services === 1000 + 2);
  await until('nothing left out', () => last('services')?.leftOut === 0);
  expect(child.exitCode).toBeNull();
});
