/**
 * What does connect-time translation save, and what does it cost? Compares connections from a
 * client's namespace through the node's to the endpoint's: direct, translated at connect time, by
 * the rules of the same agent, and through the same Services in kube-proxy's nftables layout. Then
 * the cost of loading and changing both paths, compared with rules only.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeConnectTime } from '../src/connect-time/maps/choice.ts';
import {
  type Placement,
  standardLeaseMs,
  standardRoom,
} from '../src/connect-time/maps/placement.ts';
import { openKernel } from '../src/kernel/native-kernel.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import {
  type ConnectTimePlace,
  canTranslate,
  makeConnectTimePlace,
} from '../test/lab/connect-time.ts';
import { buildLoad } from '../test/lab/native/build.ts';
import { changes, endpoint, port, Stage, target } from './connect.ts';
import { type Size, sizeName, slice } from './lib/cluster.ts';
import { kubeProxyLayout } from './lib/kube-proxy-layout.ts';
import { inNamespace } from './lib/namespace.ts';
import { type Rig, withRig } from './lib/rig.ts';
import { number, ratio, summarise, table } from './lib/stats.ts';
import { timed } from './lib/timed.ts';

const sizes: readonly Size[] = [
  { services: 10, endpoints: 10 },
  { services: 10_000, endpoints: 10 },
  { services: 50_000, endpoints: 1 },
];
/** `nft -f` of kube-proxy's layout takes too long beyond. */
const theirServicesMax = 10_000;
const server = { address: endpoint, port };
const rounds = 3;
const seconds = 1;
const requests = 10_000;
const manyClients = 16;
const loadSize: Size = { services: 8000, endpoints: 30 };
const loads = 3;
const replacements = 500;
const memorySize: Size = { services: 1000, endpoints: 30 };

export async function connectTime(): Promise<string> {
  if (!canTranslate()) return 'connect-time: needs root, and a kernel with eBPF and cgroup2';
  // Asked before minutes of measuring.
  if (spawnSync('bpftool', ['version']).error !== undefined) {
    return 'connect-time: needs bpftool: apt-get install bpftool';
  }
  const rows: string[][] = [];
  for (const size of sizes) rows.push(...(await measurePaths(size)));
  const head = ['cluster', 'path', 'connect p50 µs', 'of direct', `${manyClients} clients/s`];
  const open = ['ask p50 µs', 'of direct', 'CPU µs', 'of direct'];
  const what = `best of ${rounds} rounds of ${seconds} s for each path in turn, and ${requests} requests`;
  return [
    `Connections to a ClusterIP, and requests on an open one; ${what}`,
    table([...head, ...open], rows),
    await measureBoth(),
    await measureMemory(),
  ].join('\n\n');
}

/** The best of what was measured; connections a second are of many clients. */
interface Cost {
  readonly connectUs: number;
  readonly perSecond: number;
  readonly askUs: number;
  readonly processorUs: number;
}

interface Path {
  readonly name: string;
  readonly to: typeof target;
  /** Connections are translated when they are made. */
  readonly isInside?: boolean;
}

async function measurePaths(size: Size): Promise<string[][]> {
  return inPlace(async (place, placement) => {
    const stage = new Stage([buildLoad(), 'serve', port]);
    try {
      await stage.ready();
      stage.node.run('sysctl', ['-qw', 'net.netfilter.nf_conntrack_tcp_timeout_close=1']);
      const costs = await withRig(
        stage.node,
        async (rig) => {
          await rig.load(changes(size));
          return compare(stage, place, [
            { name: 'direct', to: server },
            { name: 'connect time', to: target, isInside: true },
            { name: 'rules', to: target },
          ]);
        },
        nftablesMode,
        undefined,
        placement,
      );
      if (size.services <= theirServicesMax) {
        stage.node.run('nft', ['flush', 'ruleset']);
        stage.node.run('nft', ['-f', '-'], kubeProxyLayout(size));
        const theirs = compare(stage, place, [
          { name: 'direct', to: server },
          { name: 'kube-proxy layout', to: target },
        ]);
        return [...rowsOf(size, costs), ...rowsOf(size, theirs).slice(1)];
      }
      return rowsOf(size, costs);
    } finally {
      stage.close();
    }
  });
}

function rowsOf(size: Size, costs: ReadonlyMap<string, Cost>): string[][] {
  const direct = costs.get('direct')!;
  return [...costs].map(([path, { connectUs, perSecond, askUs, processorUs }]) => [
    sizeName(size),
    path,
    number(connectUs),
    ratio(connectUs, direct.connectUs),
    number(perSecond),
    number(askUs),
    ratio(askUs, direct.askUs),
    number(processorUs),
    ratio(processorUs, direct.processorUs),
  ]);
}

/** Paths take turns, so that what others do on the machine hits all of them. */
function compare(
  stage: Stage,
  place: ConnectTimePlace,
  paths: readonly Path[],
): ReadonlyMap<string, Cost> {
  const costs = new Map<string, Cost>();
  for (let round = 0; round < rounds; round += 1) {
    for (const path of paths) {
      const before = costs.get(path.name);
      const now = measure(stage, place, path);
      costs.set(path.name, before === undefined ? now : better(before, now));
    }
  }
  return costs;
}

function better(a: Cost, b: Cost): Cost {
  return {
    connectUs: Math.min(a.connectUs, b.connectUs),
    perSecond: Math.max(a.perSecond, b.perSecond),
    askUs: Math.min(a.askUs, b.askUs),
    processorUs: Math.min(a.processorUs, b.processorUs),
  };
}

function measure(stage: Stage, place: ConnectTimePlace, { to, isInside = false }: Path): Cost {
  const made = join(tmpdir(), `fairlead-bench-${process.pid}.made`);
  const run = (...args: readonly string[]): Record<string, number> => {
    const enter = 'echo $$ >"$0" && exec "$@"';
    const program = isInside
      ? ['sh', '-c', enter, join(place.cgroup, 'cgroup.procs'), buildLoad()]
      : [buildLoad()];
    return JSON.parse(stage.client.run(program[0]!, [...program.slice(1), ...args]));
  };
  const at = [to.address, to.port];
  const one = run('connect', ...at, String(seconds), '1', made);
  const many = run('connect', ...at, String(seconds), String(manyClients), made);
  const asked = run('ask', ...at, String(requests));
  rmSync(made);
  return {
    connectUs: one.p50Us!,
    perSecond: many.perSecond!,
    askUs: asked.p50Us!,
    processorUs: asked.processorUs!,
  };
}

/** Full load and one change, with both paths and with rules alone. */
async function measureBoth(): Promise<string> {
  const rows: string[][] = [];
  const loaded = { both: [] as number[], rules: [] as number[] };
  const changed = { both: [] as number[], rules: [] as number[] };
  for (let run = 0; run < loads; run += 1) {
    for (const paths of ['rules', 'both'] as const) {
      await inPlace((_, placement) =>
        inNamespace('load', (namespace) =>
          withRig(
            namespace,
            async (rig) => {
              loaded[paths].push(await timed(() => rig.load(changes(loadSize))));
              if (run === 0) changed[paths].push(...(await replacedMs(rig)));
            },
            nftablesMode,
            undefined,
            paths === 'both' ? placement : undefined,
          ),
        ),
      );
    }
  }
  const [alone, both] = [Math.min(...loaded.rules), Math.min(...loaded.both)];
  for (const [paths, ms] of [
    ['rules', alone],
    ['both', both],
  ] as const) {
    const { p50, p99 } = summarise(changed[paths]);
    rows.push([paths, number(ms), ratio(ms, alone), number(p50), number(p99)]);
  }
  const head = ['paths', 'full load', 'of rules', 'one endpoint p50', 'p99'];
  const what = `Full load (best of ${loads}) and one endpoint replaced (${replacements} times)`;
  return `${what} at ${sizeName(loadSize)}; ms\n\n${table(head, rows)}`;
}

async function replacedMs(rig: Rig): Promise<number[]> {
  const tookMs: number[] = [];
  for (let i = 1; i <= replacements; i += 1) {
    const replaced = slice((i * 37) % loadSize.services, loadSize.endpoints, i);
    tookMs.push(await timed(() => rig.change({ kind: 'slice', slice: replaced })));
  }
  return tookMs;
}

/** What the kernel says that the maps of IPv4 take. */
async function measureMemory(): Promise<string> {
  const bytes = await inPlace((place, placement) =>
    inNamespace('memory', (namespace) =>
      withRig(
        namespace,
        async (rig) => {
          await rig.load(changes({ services: 1, endpoints: 1 }));
          const before = mapBytes(place);
          await rig.changeAll(changes(memorySize));
          return mapBytes(place) - before;
        },
        nftablesMode,
        undefined,
        placement,
      ),
    ),
  );
  return `Maps of ${sizeName(memorySize)} in the kernel, as bpftool has it: ${number(bytes / 1024)} KiB`;
}

function mapBytes({ directory }: ConnectTimePlace): number {
  const sizes = ['frontends4', 'endpoints4'].map((map) => {
    const argv = ['-j', 'map', 'show', 'pinned', join(directory, map)];
    const shown = JSON.parse(execFileSync('bpftool', argv, { encoding: 'utf8' }));
    return Number((shown as { bytes_memlock: number | string }).bytes_memlock);
  });
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** A place for programs and maps. */
export async function inPlace<T>(
  work: (place: ConnectTimePlace, placement: Placement) => Promise<T>,
): Promise<T> {
  const place = makeConnectTimePlace();
  const placement = {
    ...place,
    reach: 'all',
    excludes: false,
    room: standardRoom,
    leaseMs: standardLeaseMs,
    secret: new Uint8Array(16).fill(7),
  } as const;
  try {
    return await work(place, placement);
  } finally {
    const kernel = openKernel();
    await removeConnectTime(kernel, place.directory).finally(() => kernel.close());
    place.close();
  }
}
