/** What must hold in a cluster at any time: the kernel is as desired, and connections answer. */
import { setTimeout as sleep } from 'node:timers/promises';
import { deferMs } from '../../src/sync/housekeeping.ts';
import { FAMILIES, type Family } from '../lab/addresses.ts';
import type { Attempt } from '../lab/outcome.ts';
import { answerMs, hangsMs, paced } from '../lab/pace.ts';
import type { Cluster } from './cluster.ts';
import { type Frontends, WEB, WEB_PORT } from './life.ts';
import type { Program } from './program.ts';
import { differences, type Mode, type Reading, read } from './readers.ts';

/** Polls until other programs read what is desired from the kernel. */
export async function converged(cluster: Cluster, mode: Mode): Promise<void> {
  const all = cluster.life.wanted();
  const wanted = mode === 'userspace' ? listening(all) : all;
  const endMs = performance.now() + hangsMs;
  for (;;) {
    const startMs = performance.now();
    const { frontends } = await read(mode, cluster.lab.node);
    const wrong = differences(frontends, wanted);
    if (wrong.length === 0) return;
    if (performance.now() > endMs) {
      throw new Error(`${wrong.length} frontends differ:\n${wrong.slice(0, 10).join('\n')}`);
    }
    // Reading takes processor time from the program, so that it must pause.
    await sleep(Math.max(20, performance.now() - startMs));
  }
}

/**
 * In mode userspace, others see sockets that listen, but not where connections go. Without
 * endpoints there is no socket, and the kernel refuses.
 */
function listening(wanted: Frontends): Frontends {
  const served = [...wanted].filter(([, endpoints]) => endpoints.length > 0);
  return new Map(served.map(([frontend]) => [frontend, []]));
}

/**
 * The program has nothing left to do if it wrote nothing for this time. Longer in mode ipvs,
 * because other programs do not see all of its late deletions.
 */
function restMs(mode: Mode): number {
  return paced(400) + (mode === 'ipvs' ? 2 * deferMs : 0);
}

/** Waits until the program has nothing left to do, and retired objects are deleted, too. */
export async function atRest(cluster: Cluster, mode: Mode, program: Program): Promise<Reading> {
  const endMs = performance.now() + hangsMs;
  let unused: readonly string[] = [];
  while (performance.now() < endMs) {
    // No reading before: it takes more processor time than what the program does.
    const stillMs = restMs(mode) - program.quietMs;
    if (stillMs > 0) {
      await sleep(stillMs);
      continue;
    }
    const written = program.batches.length;
    const found = await read(mode, cluster.lab.node);
    if (program.batches.length > written) continue;
    if (found.unused.length === 0) return found;
    unused = found.unused;
    // What deletes them is mostly a batch that the program logs.
    const againMs = performance.now() + paced(500);
    while (program.batches.length === written && performance.now() < againMs) await sleep(20);
  }
  throw new Error(`it does not come to rest, unused: ${unused.join(', ')}`);
}

/** Connects to `web` in each family; rejects if no server answers. */
export async function connect(
  cluster: Cluster,
  flow: string,
  options: { download?: 'endless' } = {},
): Promise<void> {
  for (const family of FAMILIES) {
    const outcome = await cluster.lab.actors.client.open(flow + family, attempt(family), options);
    if (outcome.kind !== 'answered') throw new Error(`no new connection: ${outcome.kind}`);
  }
}

/**
 * Asks the connections that `connect` has made. Rejects unless all answer; returns their number.
 */
export async function alive(cluster: Cluster, flows: readonly string[]): Promise<number> {
  const all = FAMILIES.flatMap((family) => flows.map((flow) => flow + family));
  for (const flow of all) {
    const outcome = await cluster.lab.actors.client.resume(flow, answerMs);
    if (outcome.kind !== 'answered') throw new Error(`${flow} is ${outcome.kind}`);
  }
  return all.length;
}

function attempt(family: Family): Attempt {
  const to = { address: WEB[family], port: WEB_PORT };
  return { protocol: 'TCP', to, timeoutMs: answerMs };
}
