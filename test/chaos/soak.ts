/** Checks that nothing grows during a long time of changes: see `soak`. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { hangsMs } from '../lab/pace.ts';
import { processStatus } from '../lab/process-status.ts';
import { atRest, converged } from './checks.ts';
import { Cluster } from './cluster.ts';
import type { Frontends } from './life.ts';
import type { Form, Program } from './program.ts';
import { Random } from './random.ts';
import { type Mode, read } from './readers.ts';

export interface SoakOptions {
  readonly mode: Mode;
  readonly seconds: number;
  readonly seed: number;
  readonly services: number;
  readonly changesPerSecond: number;
  readonly form: Form;
  readonly sampleMs: number;
  /** Called with each sample. */
  readonly progress?: (sample: Sample) => void;
}

/** A sample of the program's process, and of its network namespace in the kernel. */
export interface Sample {
  readonly second: number;
  readonly rssMB: number;
  readonly threads: number;
  /** Descriptors without sockets that listen: mode userspace has one for each frontend. */
  readonly descriptors: number;
  /** Objects, rules, elements, sockets: see `Reading.lines`. */
  readonly kernelLines: number;
  /** Frontends and endpoints that the objects ask for: what `kernelLines` may grow with. */
  readonly wanted: number;
}

export interface SoakResult {
  readonly samples: readonly Sample[];
  readonly changes: number;
  readonly seconds: number;
  /** The time from the last change until the kernel was as desired. */
  readonly settledMs: number;
  /** Descriptions of what has grown; none = nothing has. */
  readonly grown: readonly string[];
}

/**
 * Changes a cluster at a rate for a time, takes samples, and reads the kernel at the end. Rejects
 * when the program ends or logs an error, or the kernel is not what the objects ask for, or holds
 * more or less than after a new start.
 */
export async function soak(options: SoakOptions): Promise<SoakResult> {
  const cluster = await Cluster.make({ ...options, random: new Random(options.seed) });
  const program = cluster.start();
  const over = new AbortController();
  try {
    await program.started(hangsMs);
    const churn = cluster.churn(options.changesPerSecond, over.signal);
    const startMs = performance.now();
    const samples = await sampled(cluster, program, options);
    over.abort();
    const changes = await churn;
    const endMs = performance.now();
    await converged(cluster, options.mode);
    const settledMs = performance.now() - endMs;
    // Nothing is left that no packet can reach, nor anything else that a new start does not make.
    const { lines } = await atRest(cluster, options.mode, program);
    const seconds = (endMs - startMs) / 1000;
    if (program.complaints.length > 0) throw new Error(program.complaints.join('\n'));
    const fresh = await linesOfNewStart(cluster, program, options.mode);
    if (lines.length !== fresh) {
      throw new Error(`${lines.length} lines are in the kernel, and ${fresh} after a new start`);
    }
    return { samples, changes, seconds, settledMs, grown: grownOf(samples) };
  } catch (error) {
    throw new Error(`seed ${options.seed}: ${(error as Error).message}`);
  } finally {
    over.abort();
    await program.kill();
    await cluster.close();
  }
}

/** Replaces the program and all that it has put into the kernel. Returns the lines of the next. */
async function linesOfNewStart(cluster: Cluster, program: Program, mode: Mode): Promise<number> {
  await program.kill();
  await cluster.lab.node.run(['nft', 'flush', 'ruleset']);
  const next = cluster.start();
  try {
    await next.started(hangsMs);
    await converged(cluster, mode);
    return (await atRest(cluster, mode, next)).lines.length;
  } finally {
    await next.kill();
  }
}

async function sampled(
  cluster: Cluster,
  program: Program,
  { mode, seconds, sampleMs, progress }: SoakOptions,
): Promise<Sample[]> {
  const samples: Sample[] = [];
  const startMs = performance.now();
  for (;;) {
    await sleep(sampleMs);
    const second = Math.round((performance.now() - startMs) / 1000);
    if (!program.alive) throw new Error(`it has ended: ${program.complaints.join('\n')}`);
    const { lines } = await read(mode, cluster.lab.node, false);
    const wanted = sizeOf(cluster.life.wanted());
    const own = processSample(program.pid);
    const sample = { second, ...own, kernelLines: lines.length, wanted };
    samples.push(sample);
    progress?.(sample);
    if (second >= seconds) return samples;
  }
}

function processSample(pid: number): Pick<Sample, 'rssMB' | 'threads' | 'descriptors'> {
  const field = processStatus(pid);
  return {
    rssMB: field('VmRSS') / 1024,
    threads: field('Threads'),
    descriptors: descriptorsOf(pid),
  };
}

function descriptorsOf(pid: number): number {
  const before = listening(pid);
  const open = readdirSync(`/proc/${pid}/fd`).map((fd) => targetOf(`/proc/${pid}/fd/${fd}`));
  const after = listening(pid);
  // Listening sockets come and go between the readings, so both are needed.
  return open.filter((target) => !before.has(target) && !after.has(target)).length;
}

/** `socket:[1234]` of each TCP socket that listens and each UDP socket without a peer. */
function listening(pid: number): Set<string> {
  const states: Readonly<Record<string, string>> = { tcp: '0A', tcp6: '0A', udp: '07', udp6: '07' };
  const targets = Object.entries(states).flatMap(([table, state]) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[3] === state)
      .map((fields) => `socket:[${fields[9]}]`),
  );
  return new Set(targets);
}

/** The target of a descriptor's link; empty when it is closed by now. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}

function sizeOf(wanted: Frontends): number {
  let size = wanted.size;
  for (const endpoints of wanted.values()) size += endpoints.length;
  return size;
}

/** How much the last quarter of a run may be above its second quarter. */
const limits = {
  rssMB: { factor: 1.1, beside: 8 },
  threads: { factor: 1, beside: 0 },
  descriptors: { factor: 1, beside: 2 },
  linesForEachWanted: { factor: 1.1, beside: 0.05 },
} as const;

/** Medians of quarters are compared: the first one fills caches. */
function grownOf(samples: readonly Sample[]): string[] {
  const quarter = (n: number): readonly Sample[] =>
    samples.slice(Math.floor((samples.length * n) / 4), Math.ceil((samples.length * (n + 1)) / 4));
  const values = (n: number): Record<keyof typeof limits, number> => ({
    rssMB: median(quarter(n).map(({ rssMB }) => rssMB)),
    threads: median(quarter(n).map(({ threads }) => threads)),
    descriptors: median(quarter(n).map(({ descriptors }) => descriptors)),
    linesForEachWanted: median(quarter(n).map(({ kernelLines, wanted }) => kernelLines / wanted)),
  });
  const before = values(1);
  const after = values(3);
  return (Object.keys(limits) as (keyof typeof limits)[]).flatMap((name) => {
    const { factor, beside } = limits[name];
    if (after[name] <= before[name] * factor + beside) return [];
    return [`${name}: ${before[name].toFixed(2)} to ${after[name].toFixed(2)}`];
  });
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}
