/**
 * How much memory does the product use, and which part of it is for the cluster? Compared with an
 * idle Node process, and with the product without a Service. Pages of files are mostly Node's own
 * program: the kernel shares them among processes, and can drop them.
 */
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { processStatus } from '../test/lab/process-status.ts';
import { buildProduct, withCluster } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { Product } from './lib/product.ts';
import { number, table } from './lib/stats.ts';

const sizes: readonly Size[] = [
  { services: 0, endpoints: 0 },
  { services: 8000, endpoints: 30 },
  { services: 44_000, endpoints: 1 },
  { services: 100_000, endpoints: 3 },
];

/** After the start, until its garbage is collected, which waits for ten seconds without work. */
const restMs = 40_000;

interface Resident {
  readonly all: number;
  readonly files: number;
  readonly anonymous: number;
}

export async function memory(): Promise<string> {
  buildProduct();
  const idle = await idleNode();
  const rows = [['Node alone', ...cells(idle), '–']];
  let empty: Resident | undefined;
  for (const size of sizes) {
    const resident = await product(size);
    empty ??= resident;
    const ofServices = 2 ** 20 * (resident.anonymous - empty.anonymous);
    const each = size.services === 0 ? '–' : number(ofServices / size.services);
    rows.push([sizeName(size), ...cells(resident), each]);
  }
  const head = ['cluster', 'resident', 'of files', 'anonymous', 'bytes a Service'];
  const title = `Resident memory ${restMs / 1000} s after the start; MB`;
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

function product(size: Size): Promise<Resident> {
  return withCluster(size, async (api, namespace) => {
    const running = new Product(namespace, api.kubeconfig, [], { isProbed: false });
    try {
      await running.programmedMs;
      await sleep(restMs);
      return residentOf(running.pid);
    } finally {
      await running.stop();
    }
  });
}

function residentOf(pid: number): Resident {
  const status = processStatus(pid);
  return {
    all: status('VmRSS') / 1024,
    files: status('RssFile') / 1024,
    anonymous: status('RssAnon') / 1024,
  };
}
