/** With `--manifests`, what does a change of one file cost where another has a large cluster? */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildProduct } from './lib/api-rig.ts';
import { used } from './lib/followers.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { number, table } from './lib/stats.ts';

const program = resolve(import.meta.dirname, '..', 'bin', 'fairlead');
const endpoints = 20;
const sizes = [0, 4000] as const;
const perSecond = 5;
const seconds = 20;
/** All is programmed, and garbage of the start is collected. */
const restMs = 15_000;

export async function manifests(): Promise<string> {
  buildProduct();
  const rows: string[][] = [];
  for (const services of sizes) {
    const { all, main } = await inNamespace('files', (namespace) => measure(services, namespace));
    const each = [all, main].map((ms) => number(ms / (perSecond * seconds)));
    rows.push([String(services), ...each]);
  }
  const title = `A Service changes in its file, ${perSecond} times a second, and another file has Services of ${endpoints} endpoints; ms of processor time for each`;
  return `${title}\n\n${table(['Services', 'process', 'main thread'], rows)}`;
}

async function measure(services: number, namespace: Namespace) {
  namespace.run('ip', ['link', 'set', 'lo', 'up']);
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-bench-'));
  const write = (name: string, items: readonly object[]): void => {
    const text = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
    writeFileSync(join(folder, 'new'), text);
    renameSync(join(folder, 'new'), join(folder, name));
  };
  const change = (version: number) => write('one.json', objects(0, 1 + (version % 250)));
  const all = Array.from({ length: services }, (_, n) => objects(n + 1, 0));
  write('large.json', all.flat());
  change(0);
  const flags = [
    `--manifests=${folder}`,
    '--hostname-override=node-1',
    '--conntrack-max-per-core=0',
  ];
  const timeouts = ['established', 'close-wait'].map((of) => `--conntrack-tcp-timeout-${of}=0s`);
  const argv = ['netns', 'exec', namespace.name, program, ...flags, ...timeouts];
  const child = spawn('ip', argv, { stdio: 'ignore' });
  try {
    await sleep(restMs);
    return await used(child.pid!, async () => {
      for (let version = 1; version <= perSecond * seconds; version += 1) {
        change(version);
        await sleep(1000 / perSecond);
      }
    });
  } finally {
    child.kill();
    await once(child, 'exit');
    rmSync(folder, { recursive: true });
  }
}

/** A Service and its slice. `first`: the last byte of its first endpoint. */
function objects(n: number, first: number): object[] {
  const metadata = { name: `service-${n}` };
  const [high, low] = [n >> 8, n & 255];
  const last = (i: number): number => (i === 0 ? first : 230 + i);
  return [
    {
      ...{ apiVersion: 'v1', kind: 'Service', metadata },
      spec: { clusterIP: `10.96.${high}.${low}`, ports: [{ port: 80 }] },
    },
    {
      ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' },
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': metadata.name } },
      ...{ addressType: 'IPv4', ports: [{ port: 8080 }] },
      endpoints: Array.from({ length: endpoints }, (_, i) => {
        return { addresses: [`11.${high}.${low}.${last(i)}`] };
      }),
    },
  ];
}
