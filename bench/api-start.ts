/**
 * How long does the product take from the start of its process until everything is programmed? The
 * program runs as it is shipped, in a process and a network namespace of its own. The fake API
 * server is another process, which answers over TLS, in protobuf and in JSON. Lower bounds are the
 * raw netlink loop, and a process that only reads the lists.
 */
import { join } from 'node:path';
import { openKernel } from '../src/kernel/native-kernel.ts';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import {
  buildProduct,
  contentTypes,
  type Form,
  forms,
  type Start,
  withCluster,
  withProduct,
} from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import type { Extent } from './lib/extent.ts';
import type { Namespace } from './lib/namespace.ts';
import { rawLoad } from './lib/raw-load.ts';
import { number, ratio, table } from './lib/stats.ts';

const starts = 2;

interface Case {
  readonly size: Size;
  readonly forms: readonly Form[];
}

/** Usually both forms are compared at one size, and the largest sizes are measured. */
const cases: Readonly<Record<Extent, readonly Case[]>> = {
  usual: [
    { size: { services: 8000, endpoints: 30 }, forms },
    { size: { services: 44_000, endpoints: 1 }, forms: ['protobuf'] },
    { size: { services: 100_000, endpoints: 3 }, forms: ['protobuf'] },
  ],
  whole: [
    { size: { services: 8000, endpoints: 30 }, forms },
    { size: { services: 44_000, endpoints: 1 }, forms },
    { size: { services: 100_000, endpoints: 3 }, forms },
    { size: { services: 10_000, endpoints: 15 }, forms },
    { size: { services: 8000, endpoints: 30, dualStack: true }, forms },
    { size: { services: 5000, endpoints: 10, rich: true }, forms },
  ],
};

export async function apiStart(extent: Extent): Promise<string> {
  buildProduct();
  const rows: string[][] = [];
  for (const one of cases[extent]) rows.push(...(await measure(one)));
  const what = `Process start → everything programmed, and restart with nothing changed; ms, best of ${starts}`;
  const head = [
    'cluster',
    'form',
    'programmed',
    'raw loop',
    'bare read',
    'to both',
    'listed',
    'turn',
    'late',
  ];
  const again = ['RSS MB', 'CPU', 'of it main', 'restart', 'commits', 'turn', 'late'];
  return `${what}\n\n${table([...head, ...again], rows)}`;
}

async function measure({ size, forms }: Case): Promise<string[][]> {
  // The raw loop supports only IPv4, and plain Services.
  const raw = size.dualStack || size.rich ? undefined : await rawLoad(size, 1, starts);
  return withCluster(size, async (api, namespace) => {
    const rows: string[][] = [];
    for (const form of forms) rows.push(await row(size, form, raw?.loadMs, api, namespace));
    return rows;
  });
}

async function row(
  size: Size,
  form: Form,
  rawMs: number | undefined,
  api: FakeApi,
  namespace: Namespace,
): Promise<string[]> {
  // Comes first: the server encodes each object only once.
  const readMs = bareReadMs(namespace, api.kubeconfig, form);
  const first = await measureStarts(api, namespace, 'empty', form);
  const again = await measureStarts(api, namespace, 'loaded', form);
  return [
    sizeName(size),
    form,
    number(first.programmedMs),
    rawMs === undefined ? '–' : number(rawMs),
    number(readMs),
    ratio(first.programmedMs, (rawMs ?? 0) + readMs),
    number(first.listedMs),
    number(first.report.longestTurn),
    number(first.report.eventLoop.max),
    number(first.report.rssMB),
    number(first.report.cpuMs),
    number(first.report.mainThreadCpuMs),
    number(again.programmedMs),
    '0',
    number(again.report.longestTurn),
    number(again.report.eventLoop.max),
  ];
}

/** Each family takes over its table: docs/decisions/0013-owned-tables.md. */
const takeovers = 2;

/** The best of several starts, with an empty kernel or with the loaded one. */
async function measureStarts(
  api: FakeApi,
  namespace: Namespace,
  kernelIs: 'empty' | 'loaded',
  form: Form,
): Promise<Start> {
  const measured: Start[] = [];
  const kernel = openKernel({ netns: namespace.path });
  try {
    for (let i = 0; i < starts; i += 1) {
      if (kernelIs === 'empty') namespace.run('nft', ['flush', 'ruleset']);
      else seedConnection(namespace);
      const before = await kernel.generation();
      measured.push(await withProduct(api, namespace, async (_product, start) => start, form));
      if (kernelIs === 'empty') continue;
      const commits = (await kernel.generation()) - before;
      if (commits > takeovers)
        throw new Error(`a restart with nothing changed wrote ${commits} times`);
      assertConnection(namespace);
    }
  } finally {
    kernel.close();
  }
  return measured.reduce((a, b) => (a.programmedMs < b.programmedMs ? a : b));
}

/** A connection to an endpoint, which a restart must leave alone. */
const connection = '-p udp -s 192.0.2.9 -d 11.0.0.1 --sport 5 --dport 8080';

function seedConnection(namespace: Namespace): void {
  const add = `conntrack -F; conntrack -I ${connection} -t 3000`;
  namespace.run('sh', ['-c', `(${add}) 2>/dev/null`]);
}

function assertConnection(namespace: Namespace): void {
  const list = namespace.run('sh', ['-c', 'conntrack -L -p udp 2>/dev/null']);
  if (!list.includes('src=192.0.2.9')) {
    throw new Error('a restart with nothing changed deleted a connection');
  }
}

function bareReadMs(namespace: Namespace, kubeconfig: string, form: Form): number {
  const program = join(import.meta.dirname, 'lib', 'bare-read.ts');
  const times = Array.from({ length: starts }, () => {
    const startedMs = performance.now();
    namespace.run(process.execPath, [program, kubeconfig, contentTypes[form]]);
    return performance.now() - startedMs;
  });
  return Math.min(...times);
}
