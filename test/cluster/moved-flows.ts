/**
 * Says of each failed connection from outside whether the load balancer had moved it to another
 * node, for the scripts of test/cluster/common.sh:
 *
 *     node moved-flows.ts FOLDER COUNTS...
 *
 * A balancer that changes its list of nodes may send the packets of an open connection to another
 * node. That node does not know the connection, and no service proxy can continue it there. FOLDER
 * has what was seen: `failures` (lines of load.mjs), `lists` (SECONDS and what the balancer
 * printed, a line for each change) and `flows-NODE` (`conntrack -E -e NEW -o timestamp` of each
 * node). COUNTS are the files with the counts of load.mjs. Exits with 1 if a failure remains that
 * the balancer did not cause, or that left no line.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** As load.mjs prints it. `source` is empty when no connection came about. */
export interface FailedConnection {
  readonly url: string;
  readonly message: string;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly source: string;
  readonly sourcePort: number;
  /** The address that was connected to. */
  readonly target: string;
}

/** The first packet of a connection, as a node's connection tracking saw it. */
export interface Arrival {
  readonly node: string;
  readonly ms: number;
  readonly source: string;
  readonly sourcePort: number;
  readonly target: string;
}

/** What the balancer printed from this moment on. */
export interface BalancerList {
  readonly ms: number;
  readonly text: string;
}

export interface Verdict {
  readonly isMoved: boolean;
  /** What was seen, in the order of time. */
  readonly evidence: readonly string[];
}

/** The balancer's list is read several times a second, on a machine that may be slow. */
const lateMs = 5000;
/** Failures of each kind that are printed. */
const shownMax = 20;
/** Between the clock of the client and that of connection tracking. */
const skewMs = 1000;

/**
 * A connection counts as moved if a node saw it begin, another node saw it begin later, each of
 * them once, and the balancer's list changed in between. So a connection that a node has forgotten
 * does not count: that node sees it begin twice.
 */
export function judge(
  failure: FailedConnection,
  arrivals: readonly Arrival[],
  lists: readonly BalancerList[],
): Verdict {
  const seen = arrivals
    .filter(
      ({ ms, source, sourcePort, target }) =>
        source === failure.source &&
        sourcePort === failure.sourcePort &&
        target === failure.target &&
        ms >= failure.fromMs - skewMs &&
        ms <= failure.untilMs + skewMs,
    )
    .sort((a, b) => a.ms - b.ms);
  const first = seen[0]?.ms ?? Number.POSITIVE_INFINITY;
  const last = seen.at(-1)?.ms ?? 0;
  const changes = lists.flatMap(({ ms, text }, index) =>
    index > 0 && ms >= first && ms <= last + lateMs
      ? [{ ms, text: `the balancer's list: "${lists[index - 1]!.text}" became "${text}"` }]
      : [],
  );
  const nodes = new Set(seen.map(({ node }) => node));
  return {
    isMoved: nodes.size > 1 && nodes.size === seen.length && changes.length > 0,
    evidence: [
      ...seen.map(({ ms, node }) => ({ ms, text: `its first packet at ${node}` })),
      ...changes,
    ]
      .sort((a, b) => a.ms - b.ms)
      .map(({ ms, text }) => `${clock(ms)} ${text}`),
  };
}

/** Lines such as `[1700000000.123456] [NEW] tcp 6 120 SYN_SENT src=… dst=… sport=… dport=… …`. */
export function readArrivals(node: string, printed: string): Arrival[] {
  const line = /^\[(\d+\.\d+)\].*?\bsrc=(\S+) dst=(\S+) sport=(\d+) /gm;
  return [...printed.matchAll(line)].map(([, seconds, source, target, port]) => ({
    node,
    ms: Number(seconds) * 1000,
    source: source!,
    sourcePort: Number(port),
    target: target!,
  }));
}

export function readLists(printed: string): BalancerList[] {
  return [...printed.matchAll(/^(\d+\.\d+) (.*)$/gm)].map(([, seconds, text]) => ({
    ms: Number(seconds) * 1000,
    text: text!,
  }));
}

/** How many failures the last line of counts has. */
export function countFailures(printed: string): number {
  const last = printed.trim().split('\n').at(-1)!;
  const { failures } = JSON.parse(last) as { failures: Record<string, number> };
  return Object.values(failures).reduce((sum, count) => sum + count, 0);
}

function clock(ms: number): string {
  return new Date(ms).toISOString().slice(11, 23);
}

function main([folder, ...counts]: readonly string[]): void {
  const read = (name: string) => readFileSync(join(folder!, name), 'utf8');
  const lines = read('failures').split('\n');
  const failures = lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as FailedConnection);
  const lists = readLists(read('lists'));
  const arrivals = readdirSync(folder!)
    .filter((name) => name.startsWith('flows-'))
    .flatMap((name) => readArrivals(name.slice('flows-'.length), read(name)));
  const counted = counts
    .map((path) => countFailures(readFileSync(path, 'utf8')))
    .reduce((sum, count) => sum + count, 0);
  const judged = failures.map((failure) => ({ failure, ...judge(failure, arrivals, lists) }));
  const moved = judged.filter(({ isMoved }) => isMoved);
  const unexplained = judged.filter(({ isMoved }) => !isMoved);
  for (const { evidence, failure, isMoved } of [moved, unexplained].flatMap((all) =>
    all.slice(0, shownMax),
  )) {
    const { fromMs, message, source, sourcePort, untilMs, url } = failure;
    console.log(`${isMoved ? 'moved by the balancer' : 'NOT EXPLAINED'}: ${url}: ${message}`);
    console.log(`  ${clock(fromMs)} asked, from ${source}:${sourcePort}`);
    for (const text of evidence) console.log(`  ${text}`);
    console.log(`  ${clock(untilMs)} failed`);
  }
  console.log(
    `failed from outside: ${counted}, moved by the balancer: ${moved.length} ` +
      `(${arrivals.length} connections and ${lists.length - 1} changes of the balancer's list seen)`,
  );
  process.exitCode = unexplained.length === 0 && moved.length === counted ? 0 : 1;
}

if (import.meta.main) main(process.argv.slice(2));
