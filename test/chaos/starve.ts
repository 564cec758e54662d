/** Makes allocations of the kernel fail for the program: see `starve`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { hangsMs } from '../lab/pace.ts';
import { alive, atRest, connect, converged } from './checks.ts';
import { Cluster } from './cluster.ts';
import { FailingMemory } from './failing-memory.ts';
import type { KilledMode } from './kills.ts';
import type { Form, Program } from './program.ts';
import { Random } from './random.ts';
import { changedLines, type Reading, read } from './readers.ts';

export interface StarveOptions {
  readonly mode: KilledMode;
  readonly seconds: number;
  readonly seed: number;
  readonly services: number;
  readonly changesPerSecond: number;
  readonly form: Form;
}

export interface StarveResult {
  /** Allocations that failed. */
  readonly failures: number;
  /** Batches, reads and others that the program reports as failed, and tries again. */
  readonly attempts: number;
  readonly changes: number;
  /** The time from the last failure until the kernel was as desired. */
  readonly settledMs: number;
}

/** One in this number of allocations fails, changed after each turn: from most batches to few. */
const rates: readonly number[] = [4, 20, 100, 500];
const turnMs = 300;
/** At least this number of allocations fails, on a machine of any speed. */
const failuresMin = 30;

/**
 * Starts the program and changes the cluster while allocations of its netlink threads fail in the
 * kernel. In that time old connections are served, and except in mode ipvs new ones. Afterwards the
 * same process must bring the kernel to what is desired, without an error except those of attempts
 * that it repeats, and must know what the kernel holds: another one then finds nothing to write.
 * Rejects at the first that does not hold.
 */
export async function starve(options: StarveOptions): Promise<StarveResult> {
  const { mode, seconds, seed, changesPerSecond } = options;
  const random = new Random(seed);
  const cluster = await Cluster.make({ ...options, random });
  // In mode ipvs an endpoint that goes stays until its connections have ended.
  const opensNew = mode !== 'ipvs';
  const flows = opensNew ? ['kept', 'new'] : ['kept'];
  const over = new AbortController();
  const memory = new FailingMemory();
  let program = cluster.start();
  try {
    await program.started(hangsMs);
    await converged(cluster, mode);
    await connect(cluster, 'kept');
    await program.kill();
    program = cluster.start();
    const followed = memory.follow(program.pid, over.signal);
    const churn = cluster.churn(changesPerSecond, over.signal);
    const endMs = performance.now() + seconds * 1000;
    while (performance.now() < endMs || memory.failures < failuresMin) {
      if (performance.now() > endMs + hangsMs) throw new Error('few allocations are made');
      memory.failOneOf(random.pick(rates));
      await sleep(turnMs);
      if (opensNew) await connect(cluster, 'new');
      await alive(cluster, flows);
    }
    memory.stop();
    over.abort();
    const changes = await churn;
    await followed;
    const startMs = performance.now();
    await program.started(hangsMs);
    await converged(cluster, mode);
    const settledMs = performance.now() - startMs;
    await alive(cluster, flows);
    const attempts = checkComplaints(program);
    const before = await atRest(cluster, mode, program);
    checkComplaints(program);
    await program.kill();
    program = cluster.start();
    await program.started(hangsMs);
    await checkUntouched(cluster, mode, program, before);
    return { failures: memory.failures, attempts, changes, settledMs };
  } catch (error) {
    const log = [...program.complaints, ...program.latest].join('\n');
    throw new Error(`seed ${seed}: ${(error as Error).message}\nits log:\n${log}`);
  } finally {
    memory.stop();
    over.abort();
    await program.kill();
    await cluster.close();
  }
}

/** Returns the number of attempts that are repeated. Throws for any other error. */
function checkComplaints(program: Program): number {
  const others = program.complaints.filter(
    (line) => !line.startsWith('{') || JSON.parse(line).retryMs === undefined,
  );
  if (!program.alive || others.length > 0) {
    throw new Error(`it has ended, or complains: ${others.join('\n')}`);
  }
  return program.complaints.length;
}

/** The program has found nothing to write: the one before it knew what the kernel holds. */
async function checkUntouched(
  cluster: Cluster,
  mode: KilledMode,
  { batches }: Program,
  before: Reading,
): Promise<void> {
  const lines = changedLines(before, await read(mode, cluster.lab.node));
  if (batches.length + lines.length > 0) {
    throw new Error(`a restart wrote ${JSON.stringify(batches)}:\n${lines.join('\n')}`);
  }
}
