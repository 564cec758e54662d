/**
 * What does session affinity cost? Each Service port with it has a map and chains of its own. The
 * same Services are measured without it, and with one frontend each and with four. Then clients are
 * added to the maps, and to sets as kube-proxy makes them.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EndpointSlice } from '../src/state/types.ts';
import { objects, type Size, sizeName, slice } from './lib/cluster.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { type Rig, withRig } from './lib/rig.ts';
import { number, ratio, summarise, table } from './lib/stats.ts';
import { timed } from './lib/timed.ts';

const sizes: readonly Size[] = [
  { services: 1000, endpoints: 10 },
  { services: 1000, endpoints: 10, outside: true },
  { services: 5000, endpoints: 10 },
  { services: 5000, endpoints: 10, outside: true },
];
const loads = 3;
const replacements = 300;
const scalings = 100;

/** Times in milliseconds, and the kernel's memory for each Service in KiB. */
interface Cost {
  readonly load: number;
  readonly restart: number;
  readonly replace: number;
  readonly scale: number;
  readonly memory: number;
}

export async function affinity(): Promise<string> {
  const rows: string[][] = [];
  for (const size of sizes) {
    const without = await measure(size);
    const sticky = await measure({ ...size, sticky: true });
    const columns = (['load', 'restart', 'replace', 'scale', 'memory'] as const).flatMap((name) => [
      number(without[name]),
      number(sticky[name]),
      ratio(sticky[name], without[name]),
    ]);
    rows.push([sizeName(size), ...columns]);
  }
  const pairs = ['load', 'restart', 'replace p50', 'scale p50', 'KiB a Service'];
  const head = ['cluster', ...pairs.flatMap((name) => [name, 'affinity', 'ratio'])];
  const client = await clientBytes();
  return [
    `Services without and with session affinity; ms, best of ${loads} (load, restart), and the
kernel's memory for each (slabs)`,
    table(head, rows),
    `A client that is remembered takes ${number(client.ours)} bytes of the kernel's memory (slabs), and
${number(client.peer)} in a set as kube-proxy makes it: ${ratio(client.ours, client.peer)}`,
  ].join('\n\n');
}

const mapsFilled = 8;
/** Of each map or set. */
const clientsEach = 50_000;
/** The kernel destroys earlier namespaces in the background. */
const destructionMs = 5000;

/** The kernel's memory for one client in bytes: in a map of ours, and in a set of kube-proxy's. */
async function clientBytes(): Promise<{ readonly ours: number; readonly peer: number }> {
  return inNamespace('affinity', async (namespace) => {
    const changes = [...objects({ services: mapsFilled, endpoints: 10, sticky: true })];
    await withRig(namespace, (rig) => rig.load(changes));
    const listed = namespace.run('nft', ['list', 'table', 'ip', 'fairlead']);
    const maps = [...listed.matchAll(/map (affinity-\S+) \{/g)].map(([, name]) => name!);
    await sleep(destructionMs);
    const sets = Array.from({ length: mapsFilled }, (_, i) => `affinity-${i}`);
    const made = sets.map(
      (name) => `add set ip peer ${name} { type ipv4_addr; flags dynamic,timeout; timeout 3h; }`,
    );
    namespace.run('nft', ['-f', '-'], ['add table ip peer', ...made].join('\n'));
    return {
      ours: fill(namespace, 'fairlead', maps, ' timeout 3h : 100.0.0.1 . 80'),
      peer: fill(namespace, 'peer', sets, ' timeout 3h'),
    };
  });
}

/** Adds clients. `suffix` is what follows an address. Returns the bytes of slabs that each takes. */
function fill(
  namespace: Namespace,
  tableName: string,
  names: readonly string[],
  suffix: string,
): number {
  const before = slabKiB();
  for (const [i, name] of names.entries()) {
    const clients = Array.from(
      { length: clientsEach },
      (_, client) => `10.${i}.${client >> 8}.${client & 255}${suffix}`,
    );
    const text = `add element ip ${tableName} ${name} { ${clients.join(', ')} }`;
    namespace.run('nft', ['-f', '-'], text);
  }
  return ((slabKiB() - before) * 1024) / (names.length * clientsEach);
}

async function measure(size: Size): Promise<Cost> {
  const runs: Cost[] = [];
  for (let i = 0; i < loads; i += 1) {
    runs.push(await inNamespace('affinity', (namespace) => measureOnce(size, namespace)));
  }
  const best = (name: keyof Cost): number => Math.min(...runs.map((run) => run[name]));
  return {
    load: best('load'),
    restart: best('restart'),
    replace: best('replace'),
    scale: best('scale'),
    memory: best('memory'),
  };
}

async function measureOnce(size: Size, namespace: Namespace): Promise<Cost> {
  const changes = [...objects(size)];
  const before = slabKiB();
  const load = await withRig(namespace, (rig) => timed(() => rig.load(changes)));
  const memory = (slabKiB() - before) / size.services;
  return withRig(namespace, async (rig) => {
    const restart = await timed(() => rig.load(changes));
    const replace = await p50(rig, replacements, (i) =>
      slice((i * 37) % size.services, size.endpoints, i),
    );
    const scale = await p50(rig, scalings, (i) => slice(i % size.services, size.endpoints + 1));
    return { load, restart, replace, scale, memory };
  });
}

/** The kernel's unreclaimable slab memory. */
function slabKiB(): number {
  return Number(/SUnreclaim:\s+(\d+)/.exec(readFileSync('/proc/meminfo', 'utf8'))![1]);
}

async function p50(
  rig: Rig,
  times: number,
  changed: (i: number) => EndpointSlice,
): Promise<number> {
  const tookMs: number[] = [];
  for (let i = 1; i <= times; i += 1) {
    const change = { kind: 'slice', slice: changed(i) } as const;
    tookMs.push(await timed(() => rig.change(change)));
  }
  return summarise(tookMs).p50;
}
