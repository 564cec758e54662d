/** Stops the program by SIGSTOP while the cluster changes, and continues it: see `stop`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { hangsMs } from '../lab/pace.ts';
import { alive, connect, converged } from './checks.ts';
import { Cluster } from './cluster.ts';
import type { Form } from './program.ts';
import { Random } from './random.ts';
import { changedLines, type Mode, read } from './readers.ts';

export interface StopOptions {
  readonly mode: Mode;
  /** How long the program is stopped. */
  readonly seconds: number;
  readonly seed: number;
  readonly services: number;
  readonly changesPerSecond: number;
  readonly form: Form;
}

export interface StopResult {
  /** Changes of the cluster while the program was stopped. */
  readonly changes: number;
  /** The time from SIGCONT until the kernel was as desired. */
  readonly settledMs: number;
}

/**
 * Stops the program while the cluster changes, and continues it. In that time the kernel must stay
 * as it was, and serve old and new connections. Afterwards the same process must bring the kernel
 * to what is desired, without an error in its log. Rejects at the first that does not hold.
 */
export async function stop(options: StopOptions): Promise<StopResult> {
  const { mode, seconds, seed, changesPerSecond } = options;
  const cluster = await Cluster.make({ ...options, random: new Random(seed) });
  const program = cluster.start();
  const over = new AbortController();
  try {
    await program.started(hangsMs);
    await converged(cluster, mode);
    // The program itself carries connections of mode userspace.
    const carried = mode !== 'userspace';
    if (carried) await connect(cluster, 'kept');
    program.signal('SIGSTOP');
    const before = await read(mode, cluster.lab.node);
    const churn = cluster.churn(changesPerSecond, over.signal);
    await sleep(seconds * 1000);
    if (carried) await connect(cluster, 'new');
    if (carried) await alive(cluster, ['kept', 'new']);
    const lines = changedLines(before, await read(mode, cluster.lab.node));
    if (lines.length > 0) {
      throw new Error(`these lines differ, though the program is stopped:\n${lines.join('\n')}`);
    }
    over.abort();
    const changes = await churn;
    program.signal('SIGCONT');
    const startMs = performance.now();
    await converged(cluster, mode);
    const settledMs = performance.now() - startMs;
    if (carried) await alive(cluster, ['kept', 'new']);
    if (!program.alive || program.complaints.length > 0) {
      throw new Error(`it has ended, or complains: ${program.complaints.join('\n')}`);
    }
    return { changes, settledMs };
  } catch (error) {
    const log = program.latest.join('\n');
    throw new Error(`seed ${seed}: ${(error as Error).message}\nits log:\n${log}`);
  } finally {
    over.abort();
    await program.kill();
    await cluster.close();
  }
}
