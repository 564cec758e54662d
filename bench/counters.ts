/**
 * What does it cost to count connections and refusals by Service? The same work without and with
 * counters takes turns.
 */
import { readFileSync } from 'node:fs';
import { openKernel } from '../src/kernel/native-kernel.ts';
import { fieldsOfSet } from '../src/kernel/nft/sets.ts';
import { nftOps } from '../src/kernel/ops.ts';
import { RecordWriter } from '../src/kernel/records.ts';
import { countedEndpointsMax, setDefinitions, tableName } from '../src/modes/nftables/layout.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import type { ProxyMode } from '../src/modes/proxy-mode.ts';
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
const connectRuns = 12;
const pairsAtOnce = 10_000;

const counting: ProxyMode = {
  ...nftablesMode,
  planner: (config, environment) =>
    nftablesMode.planner({ ...config, countsTraffic: true }, environment),
};
const modes = [nftablesMode, counting] as const;

/** Processor time of this process, in all its threads; ms. */
interface Work {
  readonly ms: number;
  /** The part of it in the kernel. */
  readonly kernelMs: number;
}

interface Programming {
  readonly load: Work;
  /** All replacements together. */
  readonly replace: Work;
  readonly memoryMiB: number;
}

export async function counters(): Promise<string> {
  const rows: string[][] = [];
  for (const size of sizes) rows.push(await programming(size));
  const work = (name: string): string[] => [name, 'kernel', 'counted', 'kernel', ''];
  const head = ['cluster', ...work('load'), ...work('change'), 'more memory', 'used'];
  return [
    `Full load (ms of processor time, and of it in the kernel; best of ${loads}), one endpoint replaced
(µs, mean of ${replacements}), and what the kernel needs more (MiB): after the load, and once all
endpoints, or as many as are counted (${countedEndpointsMax}), have had a connection`,
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
  const cells = (of: (one: Programming) => Work, unit: number): string[] => {
    const [none, counted] = found.map((all) => leastOf(all.map(of)));
    const both = [none!, counted!].flatMap(({ ms, kernelMs }) => [ms * unit, kernelMs * unit]);
    return [...both.map(number), ratio(counted!.ms, none!.ms)];
  };
  const median = (values: readonly number[]): number => summarise(values).p50;
  const [none, counted] = found.map((all) => median(all.map(({ memoryMiB }) => memoryMiB)));
  const more = counted! - none!;
  const uses: number[] = [];
  for (let run = 0; run < loads; run += 1) uses.push(await usedMiB(size));
  const used = median(uses);
  return [
    sizeName(size),
    ...cells(({ load }) => load, 1),
    ...cells(({ replace }) => replace, 1000 / replacements),
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
        const load = await worked(() => rig.load(all));
        const memoryMiB = kernelMiB() - before;
        const replace = await worked(async () => {
          for (let i = 1; i <= replacements; i += 1) {
            const replaced = slice((i * 37) % size.services, size.endpoints, i);
            await rig.change({ kind: 'slice', slice: replaced });
          }
        });
        return { load, replace, memoryMiB };
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
        for (const set of ['endpoint-connections', 'endpoint-answers'] as const) {
          for (let first = 0; first < all; first += pairsAtOnce) {
            const count = Math.min(pairsAtOnce, all - first);
            const result = await kernel.apply(pairs(set, first, count));
            if (result.kind === 'failed') throw new Error(JSON.stringify(result));
          }
        }
        const used = kernelMiB() - before;
        kernel.close();
        return used;
      },
      counting,
    ),
  );
}

/** Adds distinct elements to a set that counts pairs of a frontend and an endpoint. */
function pairs(
  name: 'endpoint-connections' | 'endpoint-answers',
  first: number,
  count: number,
): Uint8Array {
  const {
    family,
    table: of,
    set,
    keyLength,
  } = fieldsOfSet('IPv4', tableName, setDefinitions('IPv4')[name]);
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

async function worked(work: () => Promise<unknown>): Promise<Work> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { ms: (user + system) / 1000, kernelMs: system / 1000 };
}

function leastOf(works: readonly Work[]): Work {
  return works.reduce((a, b) => (a.ms < b.ms ? a : b));
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
