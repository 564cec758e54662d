/**
 * Kills the program at random moments, and checks the kernel: see `killMany`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { deferMs } from '../../src/sync/housekeeping.ts';
import { hangsMs, paced } from '../lab/pace.ts';
import { alive, atRest, connect, converged } from './checks.ts';
import { Cluster } from './cluster.ts';
import type { Form, Program } from './program.ts';
import { Random } from './random.ts';
import { changedLines, type Mode, type Reading, read, writesNeeded } from './readers.ts';

/** Without mode userspace: nothing of it outlives the process. */
export type KilledMode = Exclude<Mode, 'userspace'>;
export const killedModes: readonly KilledMode[] = ['nftables', 'ipvs', 'iptables'];

export interface KillOptions {
  readonly mode: KilledMode;
  /** The least number of kills. */
  readonly count: number;
  readonly seed: number;
  /** Services of the cluster. */
  readonly services: number;
  readonly changesPerSecond: number;
  readonly form: Form;
  /** Nodes at the same time, each with its own cluster. A round mostly waits. */
  readonly nodes: number;
  /** Called after each round. */
  readonly progress?: (tally: Tally) => void;
  /** Ends the run after the round that is under way. */
  readonly signal?: AbortSignal;
}

/** The result of a run: counts, unless the name says otherwise. */
export interface Tally {
  rounds: number;
  kills: number;
  /** Kills before the first rules were complete. */
  killsInStart: number;
  /** Kills with nothing left to do. Each restart after them wrote nothing. */
  killsAtRest: number;
  changes: number;
  /** Lines that other programs saw change between a kill and the end of the repair. */
  linesChanged: number;
  /** The writes that lead from the first of these readings to the last: see `writesNeeded`. */
  writesNeeded: number;
  /** Ops and elements that the program's log reports as written since then. */
  writes: number;
  /** Established connections and downloads that were asked after kills, all of which answered. */
  connectionsAlive: number;
  /** The times from a restart until the kernel was as desired. */
  repairMs: number[];
}

/**
 * Runs rounds until there were enough kills. In each round the cluster changes all the time. The
 * program is killed, and often killed again while it starts. Then these must hold:
 * - the kernel, read by other programs, does what the objects ask for, and nothing else;
 * - in each family, a connection of the whole run and a download are alive.
 *
 * In every second round, beginning with the first, the cluster does not change after the last kill.
 * Then these must hold, too:
 * - when the program has nothing left to do, it has written no more than had to change;
 * - when it is killed and started again after that, it writes nothing.
 *
 * Rejects at the first that does not hold. The message has the seed.
 */
export async function killMany(options: KillOptions): Promise<Tally> {
  const tally: Tally = {
    rounds: 0,
    kills: 0,
    killsInStart: 0,
    killsAtRest: 0,
    changes: 0,
    linesChanged: 0,
    writesNeeded: 0,
    writes: 0,
    connectionsAlive: 0,
    repairMs: [],
  };
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, ...(options.signal ? [options.signal] : [])]);
  const nodes = Array.from({ length: options.nodes }, (_, node) =>
    killOnNode({ ...options, signal }, node, tally).catch((error) => {
      failed.abort();
      throw error;
    }),
  );
  // All nodes clean up before the first failure is reported.
  await Promise.allSettled(nodes);
  await Promise.all(nodes);
  return tally;
}

async function killOnNode(options: KillOptions, node: number, tally: Tally): Promise<void> {
  const random = new Random(options.seed + node);
  const cluster = await Cluster.make({ ...options, random });
  const run = new Run(options, cluster, random, tally);
  let rounds = 0;
  try {
    await run.begin();
    while (tally.kills < options.count && !options.signal?.aborted) {
      await run.round();
      rounds += 1;
      options.progress?.(tally);
    }
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`seed ${options.seed}, node ${node}, round ${rounds + 1}: ${message}`);
  } finally {
    await run.end();
    await cluster.close();
  }
}

/** Kills during a start come within this time. A start takes half a second on an idle machine. */
const startLongestMs = paced(500);
const liveLongestMs = paced(600);
/** Long enough for the deletion of retired objects. */
const liveVeryLongMs = deferMs + paced(1000);
/** The most writes for each needed one. A replaced element is two lines and two writes. */
const writesForEach = 1.25;
/** The number of other writes that are allowed, for small repairs. */
const writesBeside = 20;

class Run {
  readonly #tally: Tally;
  readonly #options: KillOptions;
  readonly #cluster: Cluster;
  readonly #random: Random;
  #program: Program;
  /** Whether nothing changes between the last kill of this round and its end. */
  #still = false;

  constructor(options: KillOptions, cluster: Cluster, random: Random, tally: Tally) {
    this.#options = options;
    this.#cluster = cluster;
    this.#random = random;
    this.#tally = tally;
    this.#program = cluster.start();
  }

  async begin(): Promise<void> {
    await this.#program.started(hangsMs);
    await converged(this.#cluster, this.#options.mode);
    await connect(this.#cluster, 'kept');
  }

  async end(): Promise<void> {
    await this.#program.kill();
  }

  async round(): Promise<void> {
    await connect(this.#cluster, 'download', { download: 'endless' });
    const over = new AbortController();
    const churn = this.#cluster.churn(this.#options.changesPerSecond, over.signal);
    const stopChurn = async (): Promise<void> => {
      over.abort();
      const changes = await churn;
      this.#tally.changes += changes;
    };
    await sleep(this.#random.below(this.#random.below(4) === 0 ? liveVeryLongMs : liveLongestMs));
    await this.#kill();
    for (let again = this.#random.below(5); again > 0; again -= 1) {
      this.#program = this.#cluster.start();
      await sleep(this.#random.below(startLongestMs));
      await this.#kill();
    }
    this.#still = !this.#still;
    if (this.#still) await stopChurn();
    const before = this.#still ? await this.#read() : undefined;
    const startMs = performance.now();
    this.#program = this.#cluster.start();
    await this.#program.started(hangsMs);
    if (!this.#still) await stopChurn();
    await converged(this.#cluster, this.#options.mode);
    this.#tally.repairMs.push(performance.now() - startMs);
    const answered = await alive(this.#cluster, ['kept', 'download']);
    this.#tally.connectionsAlive += answered;
    if (before !== undefined) {
      const after = await atRest(this.#cluster, this.#options.mode, this.#program);
      this.#compare(before, after);
      await this.#restart(after);
    }
    this.#tally.rounds += 1;
  }

  async #kill(): Promise<void> {
    const { complaints, alive: wasAlive } = this.#program;
    await this.#program.kill();
    if (!wasAlive) throw new Error(`it has ended by itself: ${complaints.join('\n')}`);
    this.#tally.kills += 1;
    if (!this.#program.ready) this.#tally.killsInStart += 1;
    if (complaints.length > 0) throw new Error(`it complains: ${complaints.join('\n')}`);
  }

  #read(): Promise<Reading> {
    return read(this.#options.mode, this.#cluster.lab.node);
  }

  #compare(before: Reading, after: Reading): void {
    const { batches, writes } = this.#program;
    const needed = writesNeeded(before, after);
    this.#tally.linesChanged += changedLines(before, after).length;
    this.#tally.writesNeeded += needed;
    this.#tally.writes += writes;
    if (writes > writesForEach * needed + writesBeside) {
      const words = `${writes} writes where ${needed} lead to what is wanted`;
      throw new Error(`${words}: ${JSON.stringify(batches)}`);
    }
  }

  /** Kills the program with nothing left to do. After a restart it must write nothing. */
  async #restart(before: Reading): Promise<void> {
    await this.#kill();
    this.#tally.killsAtRest += 1;
    this.#program = this.#cluster.start();
    await this.#program.started(hangsMs);
    const { batches } = this.#program;
    const lines = changedLines(before, await this.#read());
    if (batches.length + lines.length > 0) {
      throw new Error(`a restart wrote ${JSON.stringify(batches)}:\n${lines.join('\n')}`);
    }
  }
}
