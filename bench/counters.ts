/**
 * What does it cost to count connections and refusals by Service? The same work without and with
 * counters takes turns.
 */
import { readFileSync } from 'node:fs';
import { openKernel } from '../src/kernel/native-kernel.ts';
import { fieldsOfSet } from '../src/kernel/nft/sets.ts';
import { nftOps } from '../src/kernel/ops.ts';
import { RecordWriter } from '../src/kernel/records.ts';
import type { ProxyMode } from '../src/modes/mode.ts';
import { countedEndpointsMax, setDefinitions, tableName } from '../src/modes/nftables/layout.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import { buildPrograms, type Cost, changes, Stage, target } from './connect.ts';
import { objects, type Size, sizeName, slice } from './lib/cluster.ts';
import { inNamespace } from './lib/namespace.ts';
import { withRig } from './lib/rig.ts';
import { number, ratio, summarise, table } from './lib/stats.ts';

const sizes: readonly Size[] = [
  { services: 8000, endpoints: 30 },
  { services: 44_000, endpoints: 1 },
];
const loads = 5;
const replacements = 500;
const connecting: Size = { services: 1000, endpoints: 10 };
const connectRuns = 6;
const pairsAtOnce = 10_000;

const counting: ProxyMode = {
  ...nftablesMode,
  planner: (config, environment) =>
    nftablesMode.planner({ ...config, countsTraffic: true }, environment),
};
const modes = [nftablesMode, counting] as const;

interface Programming {
  readonly loadMs: number;
  readonly replaceMs: number;
  readonly memoryMiB: number;
}

export async function counters(): Promise<string> {
  const rows: string[][] = [];
  for (const size of sizes) rows.push(await programming(size));
  const head = ['cluster', 'load', 'counted', '', 'change', 'counted', '', 'more memory', 'used'];
  return [
    `Full load (ms of CPU time, best of ${loads}), one endpoint replaced (ms, p50 of ${replacements}),
and what the kernel needs more (MiB): after the load, and once all endpoints, or as many as
are counted (${countedEndpointsMax}), have had a connection`,
    table(head, rows),
    `Connecting to a ClusterIP of ${sizeName(connecting)}; best of ${connectRuns}`,
    table(['path', 'p50 µs', 'p99 µs', 'p50 to none'], await paths()),
  ].join('\n\n');
}

async function programming(size: Size): Promise<string[]> {
  const found: Programming[][] = [[], []];
  for (let run = 0; run < loads; run += 1) {
    for (const [i, mode] of modes.entries()) found[i]!.push(await program(mode, size));
  }
  const best = (i: number, of: keyof Programming): number =>
    Math.min(...found[i]!.map((one) => one[of]));
  const pair = (of: keyof Programming): string[] => {
    const [none, counted] = [best(0, of), best(1, of)];
    return [number(none), number(counted), ratio(counted, none)];
  };
  const median = (values: readonly number[]): number => summarise(values).p50;
  const [none, counted] = found.map((all) => median(all.map(({ memoryMiB }) => memoryMiB)));
  const more = counted! - none!;
  const uses: number[] = [];
  for (let run = 0; run < loads; run += 1) uses.push(await usedMiB(size));
  const used = median(uses);
  return [
    sizeName(size),
    ...pair('loadMs'),
    ...pair('replaceMs'),
    number(more),
    number(more + used),
  ];
}

function program(mode: ProxyMode, size: Size): Promise<Programming> {
  const all = [...objects(size)];
  return inNamespace('counters', (namespace) =>
    withRig(
      namespace,
      async (rig) => {
        const before = kernelMiB();
        const loadMs = await worked(() => rig.load(all));
        const memoryMiB = kernelMiB() - before;
        const tookMs: number[] = [];
        for (let i = 1; i <= replacements; i += 1) {
          const replaced = slice((i * 37) % size.services, size.endpoints, i);
          tookMs.push(await timed(() => rig.change({ kind: 'slice', slice: replaced })));
        }
        return { loadMs, replaceMs: summarise(tookMs).p50, memoryMiB };
      },
      mode,
    ),
  );
}

/** The memory of elements that packets make, one for each endpoint. Here we make them. */
function usedMiB({ services, endpoints }: Size): Promise<number> {
  return inNamespace('counters', (namespace) =>
    withRig(
      namespace,
      async (rig) => {
        await rig.load([]);
        const kernel = openKernel({ netns: namespace.path });
        const before = kernelMiB();
        const all = Math.min(services * endpoints, countedEndpointsMax);
        for (let first = 0; first < all; first += pairsAtOnce) {
          const count = Math.min(pairsAtOnce, all - first);
          const result = await kernel.apply(pairs(first, count));
          if (result.kind === 'failed') throw new Error(JSON.stringify(result));
        }
        const used = kernelMiB() - before;
        kernel.close();
        return used;
      },
      counting,
    ),
  );
}

/** Adds distinct elements to `endpoint-connections`. */
function pairs(first: number, count: number): Uint8Array {
  const {
    family,
    table: of,
    set,
    keyLength,
  } = fieldsOfSet('IPv4', tableName, setDefinitions('IPv4')['endpoint-connections']);
  const entries = Buffer.alloc(count * keyLength);
  for (let i = 0; i < count; i += 1) entries.writeUInt32BE(first + i, i * keyLength);
  const writer = new RecordWriter(nftOps, entries.length + 256);
  const at = { family, table: of, set, shape: 0, keyLength, dataLength: 0 };
  writer.write('elementsAdd', { ...at, count, entries });
  return writer.finish();
}

/** The kernel's memory that it can't reclaim. */
function kernelMiB(): number {
  const meminfo = readFileSync('/proc/meminfo', 'utf8');
  const kib = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(meminfo)![1]);
  return (kib('SUnreclaim') + kib('Percpu') + kib('VmallocUsed')) / 1024;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/** The CPU time of this process, in user mode and in the kernel; ms. */
async function worked(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

async function paths(): Promise<string[][]> {
  buildPrograms();
  const stage = new Stage();
  const costs: Cost[][] = [[], []];
  try {
    await stage.ready();
    for (let run = 0; run < connectRuns; run += 1) {
      for (const [i, mode] of modes.entries()) {
        const load = async (rig: { load(all: ReturnType<typeof changes>): Promise<void> }) => {
          await rig.load(changes(connecting));
          return stage.connect(target);
        };
        costs[i]!.push(await withRig(stage.node, load, mode));
        stage.node.run('nft', ['flush', 'ruleset']);
      }
    }
  } finally {
    stage.close();
  }
  const best = costs.map((all) => all.reduce((a, b) => (a.p50Us < b.p50Us ? a : b)));
  return best.map(({ p50Us, p99Us }, i) => [
    i === 0 ? 'no counters' : 'counted',
    number(p50Us),
    number(p99Us),
    ratio(p50Us, best[0]!.p50Us),
  ]);
}
