/**
 * How much memory does the product use, and which part of it is for the cluster? Compared with an
 * idle Node process, and with the product without a Service. Pages of files are mostly Node's own
 * program: the kernel shares them among processes, and can drop them.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { processStatus } from '../test/lab/process-status.ts';
import { buildProduct, withCluster } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { Stop } from './lib/collections.ts';
import { Product } from './lib/product.ts';
import { number, table } from './lib/stats.ts';

const sizes: readonly Size[] = [
  { services: 0, endpoints: 0 },
  { services: 8000, endpoints: 30 },
  { services: 44_000, endpoints: 1 },
  { services: 100_000, endpoints: 3 },
];

/** After the start, until its garbage is collected, which waits for ten seconds without work. */
const collectedMs = 40_000;
/** Until V8 has given back pages that are partly filled, 100 s after its last collection. */
const restMs = 150_000;

interface Rest {
  /** Before the last pages were given back. */
  readonly collected: Resident;
  readonly last: Resident;
  /** The longest stop of the event loop by a collection of the heap, in milliseconds. */
  readonly longestStopMs: { readonly start: number; readonly rest: number };
}

interface Resident {
  readonly all: number;
  readonly files: number;
  readonly anonymous: number;
}

export async function memory(): Promise<string> {
  buildProduct();
  const idle = await idleNode();
  const rows = [['Node alone', '–', ...cells(idle), '–', '–', '–']];
  let empty: Resident | undefined;
  for (const size of sizes) {
    const { collected, last, longestStopMs: stop } = await product(size);
    empty ??= last;
    const ofServices = 2 ** 20 * (last.anonymous - empty.anonymous);
    const each = size.services === 0 ? '–' : number(ofServices / size.services);
    const stops = [number(stop.start), number(stop.rest)];
    rows.push([sizeName(size), number(collected.all), ...cells(last), each, ...stops]);
  }
  const [early, late] = [collectedMs, restMs].map((ms) => `${ms / 1000} s`);
  const parts = ['of files', 'anonymous', 'bytes a Service'];
  const stops = ['longest stop: start', 'then'];
  const head = ['cluster', `after ${early}`, `after ${late}`, ...parts, ...stops];
  const title =
    `Resident memory ${early} and ${late} after the start, and parts of the latter; MB. The longest ` +
    'stop of the event loop by a collection of the heap, until all was programmed and after that; ms';
  return [title, table(head, rows)].join('\n\n');
}

function cells({ all, files, anonymous }: Resident): string[] {
  return [all, files, anonymous].map(number);
}

async function idleNode(): Promise<Resident> {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
  await sleep(2000);
  const resident = residentOf(child.pid!);
  child.kill();
  return resident;
}

function product(size: Size): Promise<Rest> {
  return withCluster(size, async (api, namespace) => {
    const folder = mkdtempSync(join(tmpdir(), 'fairlead-memory-'));
    const collectionsFile = join(folder, 'collections.json');
    const options = { isProbed: false, collectionsFile };
    const running = new Product(namespace, api.kubeconfig, [], options);
    let isRunning = true;
    try {
      const programmedMs = await running.programmedMs;
      await sleep(collectedMs);
      const collected = residentOf(running.pid);
      await sleep(restMs - collectedMs);
      const last = residentOf(running.pid);
      isRunning = false;
      await running.stop();
      return { collected, last, longestStopMs: longestStops(collectionsFile, programmedMs) };
    } finally {
      if (isRunning) await running.stop();
      rmSync(folder, { recursive: true });
    }
  });
}

function longestStops(file: string, programmedMs: number): Rest['longestStopMs'] {
  const stops = JSON.parse(readFileSync(file, 'utf8')) as readonly Stop[];
  const longest = (some: readonly Stop[]): number =>
    Math.max(0, ...some.map(({ durationMs }) => durationMs));
  return {
    start: longest(stops.filter(({ atMs }) => atMs <= programmedMs)),
    rest: longest(stops.filter(({ atMs }) => atMs > programmedMs)),
  };
}

function residentOf(pid: number): Resident {
  const status = processStatus(pid);
  return {
    all: status('VmRSS') / 1024,
    files: status('RssFile') / 1024,
    anonymous: status('RssAnon') / 1024,
  };
}
