/**
 * How long does it take to program a cluster from nothing, and one change after that? Fairlead has
 * an in-process source. It is compared with a raw netlink loop that sends the same elements (the
 * lower bound), and with `nft -f` of the same content.
 */

import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openKernel } from '../src/kernel/native-kernel.ts';
import { nftablesMode } from '../src/modes/nftables/mode.ts';
import type { Change } from '../src/state/change.ts';
import { resolve } from '../src/state/resolve.ts';
import { ClusterState } from '../src/state/store.ts';
import type { EndpointSlice } from '../src/state/types.ts';
import { noPause } from '../src/time/pacer.ts';
import { scriptOf } from '../test/print/script.ts';
import { objects, type Size, sizeName, sizes, slice } from './lib/cluster.ts';
import { LongestTurn } from './lib/longest-turn.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { type RawTimes, rawLoad } from './lib/raw-load.ts';
import { config, environment, type Rig, withRig } from './lib/rig.ts';
import { number, ratio, type Summary, summarise, table } from './lib/stats.ts';

const loads = 3;
const replacements = 1000;
const scalings = 100;
const nftRuns = 5;
/** How many endpoints are replaced together, each of another Service. */
const bursts = [500, 6000] as const;
const burstRuns = 5;

/** Milliseconds. */
interface Ours {
  readonly load: number;
  /** Processor time of each load. */
  readonly cpu: readonly ProcessorTime[];
  readonly restart: number;
  readonly replace: Summary;
  readonly scale: Summary;
  /** The longest turn of the event loop. */
  readonly longestTurn: { readonly load: number; readonly restart: number };
  readonly longestCommit: number;
  /** The time of each of `bursts`; NaN if there are fewer Services. */
  readonly atOnce: readonly number[];
}

/** Milliseconds, in user mode and in the kernel. */
interface ProcessorTime {
  readonly main: number;
  readonly all: number;
}

interface Nft {
  readonly load: number;
  readonly replace: Summary;
}

export async function load(): Promise<string> {
  const full: string[][] = [];
  const single: string[][] = [];
  const many: string[][] = [];
  const each: string[][] = [];
  for (const size of sizes) {
    const ours = await measureOurs(size);
    const possible = bursts.filter((count) => count <= size.services);
    const raw = await rawLoad(size, replacements, loads, possible);
    const nft = await measureNft(size);
    full.push(fullRow(size, ours, raw, nft));
    single.push(singleRow(size, ours, raw, nft));
    many.push(manyRow(size, ours, raw));
    each.push(serviceRow(size, ours, raw));
  }
  const fullHead = ['cluster', 'Fairlead', 'raw loop', 'nft -f', 'to raw', 'to nft', 'restart'];
  const scaleHead = ['scale p50', 'scale p99', 'raw p50', 'raw p99'];
  const singleHead = ['cluster', 'p50', 'p99', 'raw p50', 'nft -f p50', ...scaleHead];
  const manyHead = ['cluster', ...bursts.flatMap((n) => [`${n.toLocaleString('en')}`, 'raw'])];
  const turns = ['longest turn: load', 'restart', 'longest commit'];
  const eachHead = ['cluster', 'main: first', 'next', 'all: first', 'next', 'raw loop', 'to raw'];
  return [
    `Full load into an empty kernel, and restart with nothing changed; ms, best of ${loads}`,
    table(fullHead, full),
    `One endpoint replaced (${replacements} times), and a Service scaled by one (${scalings}); ms`,
    table(singleHead, single),
    `Endpoints of so many Services replaced at once, best of ${burstRuns}; then the longest that the main
thread worked without a turn of the event loop (CPU time), and the longest commit of the load; ms`,
    table([...manyHead, ...turns], many),
    `Processor time for a Service, of the first load of a process and the least of the next ${loads - 1}:
main thread, then all threads; and the time of the raw loop, which waits for nothing; µs`,
    table(eachHead, each),
  ].join('\n\n');
}

function fullRow(size: Size, ours: Ours, raw: RawTimes, nft: Nft): string[] {
  return [
    sizeName(size),
    number(ours.load),
    number(raw.loadMs),
    number(nft.load),
    ratio(ours.load, raw.loadMs),
    ratio(ours.load, nft.load),
    number(ours.restart),
  ];
}

function singleRow(size: Size, ours: Ours, raw: RawTimes, nft: Nft): string[] {
  return [
    sizeName(size),
    number(ours.replace.p50),
    number(ours.replace.p99),
    number(raw.replace.p50),
    number(nft.replace.p50),
    number(ours.scale.p50),
    number(ours.scale.p99),
    number(raw.scale.p50),
    number(raw.scale.p99),
  ];
}

function serviceRow(size: Size, { cpu }: Ours, raw: RawTimes): string[] {
  const [first, ...next] = cpu;
  const main = Math.min(...next.map((one) => one.main));
  const all = Math.min(...next.map((one) => one.all));
  const times = [first!.main, main, first!.all, all, raw.loadMs];
  const perService = times.map((ms) => number((ms * 1000) / size.services));
  return [sizeName(size), ...perService, ratio(all, raw.loadMs)];
}

function manyRow(size: Size, ours: Ours, raw: RawTimes): string[] {
  const pairs = ours.atOnce.flatMap((ms, i) => [ms, Number.isNaN(ms) ? ms : raw.atOnceMs[i]!]);
  const { load, restart } = ours.longestTurn;
  return [sizeName(size), ...[...pairs, load, restart, ours.longestCommit].map(number)];
}

async function timed(work: () => Promise<unknown> | unknown): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

function milliseconds({ user, system }: NodeJS.CpuUsage): number {
  return (user + system) / 1000;
}

async function measureOurs(size: Size): Promise<Ours> {
  const changes = [...objects(size)];
  const turns = new LongestTurn();
  const loaded: number[] = [];
  const cpu: ProcessorTime[] = [];
  const turned: number[] = [];
  const commits: number[] = [];
  const loadOnce = (namespace: Namespace): Promise<void> =>
    withRig(namespace, async (rig) => {
      for (const change of changes) rig.state.apply(change);
      await sleep(10);
      turns.take();
      const before = { main: process.threadCpuUsage(), all: process.cpuUsage() };
      loaded.push(await timed(() => rig.load([])));
      cpu.push({
        main: milliseconds(process.threadCpuUsage(before.main)),
        all: milliseconds(process.cpuUsage(before.all)),
      });
      turned.push(turns.take());
      commits.push(rig.longestCommitMs);
    });
  for (let i = 1; i < loads; i += 1) await inNamespace('load', loadOnce);
  const measured = await inNamespace('load', async (namespace) => {
    await loadOnce(namespace);
    return withRig(namespace, (rig) => measureRunning(rig, size, changes, turns));
  });
  turns.close();
  const longestTurn = { load: Math.min(...turned), restart: measured.longestTurn };
  const longestCommit = Math.min(...commits);
  return { ...measured, load: Math.min(...loaded), cpu, longestTurn, longestCommit };
}

/** Measures changes once the table is loaded. */
async function measureRunning(
  rig: Rig,
  size: Size,
  changes: readonly Change[],
  turns: LongestTurn,
): Promise<Omit<Ours, 'load' | 'cpu' | 'longestTurn' | 'longestCommit'> & { longestTurn: number }> {
  for (const change of changes) rig.state.apply(change);
  await sleep(10);
  turns.take();
  const restart = await timed(() => rig.load([]));
  const longestTurn = turns.take();
  const replace = await measureChanges(rig, replacements, (i) =>
    slice((i * 37) % size.services, size.endpoints, i),
  );
  const scale = await measureChanges(rig, scalings, (i) =>
    slice(i % size.services, size.endpoints + 1),
  );
  const atOnce: number[] = [];
  for (const count of bursts) atOnce.push(await measureBurst(rig, size, count));
  return { restart, longestTurn, replace, scale, atOnce };
}

async function measureBurst(rig: Rig, size: Size, count: number): Promise<number> {
  if (count > size.services) return Number.NaN;
  const tookMs: number[] = [];
  for (let run = 1; run <= burstRuns; run += 1) {
    const replaced = Array.from({ length: count }, (_, i) => ({
      kind: 'slice' as const,
      slice: slice(i, size.endpoints, run * 10_000 + i),
    }));
    tookMs.push(await timed(() => rig.changeAll(replaced)));
  }
  return Math.min(...tookMs);
}

async function measureChanges(
  rig: Rig,
  times: number,
  changed: (i: number) => EndpointSlice,
): Promise<Summary> {
  const tookMs: number[] = [];
  for (let i = 1; i <= times; i += 1) {
    const change = { kind: 'slice', slice: changed(i) } as const;
    tookMs.push(await timed(() => rig.change(change)));
  }
  return summarise(tookMs);
}

/** Loads the same table as text, and replaces one element, each by a run of nft. */
async function measureNft(size: Size): Promise<Nft> {
  const file = join(tmpdir(), `fairlead-bench-${process.pid}.nft`);
  return inNamespace('nft', async (namespace) => {
    writeFileSync(file, await fullScript(size, namespace.path));
    const load = await timed(() => namespace.run('nft', ['-f', file]));
    const replace: number[] = [];
    for (let i = 1; i <= nftRuns; i += 1) {
      const key = `10.96.0.1 . tcp . 80 . 0`;
      const from = `delete element ip fairlead endpoints-e { ${key} }`;
      const to = `add element ip fairlead endpoints-e { ${key} : 100.0.0.${i} . 8080 }`;
      replace.push(await timed(() => namespace.run('nft', ['-f', '-'], `${from}\n${to}\n`)));
    }
    return { load, replace: summarise(replace) };
  });
}

async function fullScript(size: Size, netns: string): Promise<string> {
  const state = new ClusterState();
  for (const change of objects(size)) state.apply(change);
  const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true };
  const planner = nftablesMode.planner(config, environment);
  const kernel = openKernel({ netns });
  await (await planner.observe(kernel, noPause)).repair(noPause);
  kernel.close();
  for (const key of state.serviceKeys()) {
    for (const forwarding of resolve(state.service(key)!, state.slices(key), context)) {
      planner.change(undefined, forwarding);
    }
  }
  return scriptOf('nftables', planner.take()!.ops);
}
