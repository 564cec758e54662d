/**
 * Kills the program at random moments, and looks what becomes of the kernel: see `killMany`.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { deferMs } from '../../src/modes/mode.ts';
import { FAMILIES, type Family } from '../lab/addresses.ts';
import type { Attempt } from '../lab/outcome.ts';
import { paced } from '../lab/pace.ts';
import { Cluster } from './cluster.ts';
import { WEB, WEB_PORT } from './life.ts';
import type { Form, Program } from './program.ts';
import { Random } from './random.ts';
import { differences, distance, type Mode, type Reading, read } from './readers.ts';

/** Mode userspace has nothing that outlives its process. */
export type KilledMode = Exclude<Mode, 'userspace'>;
export const killedModes: readonly KilledMode[] = ['nftables', 'ipvs', 'iptables'];

export interface KillOptions {
  readonly mode: KilledMode;
  /** At least so many kills. */
  readonly count: number;
  readonly seed: number;
  /** Services of the cluster. */
  readonly services: number;
  readonly changesPerSecond: number;
  readonly form: Form;
  /** Is told after each round. */
  readonly progress?: (tally: Tally) => void;
  /** Ends the run after the round that is under way. */
  readonly signal?: AbortSignal;
}

/** What a run came to. Counts, unless the name says otherwise. */
export interface Tally {
  rounds: number;
  kills: number;
  /** Of the kills: before the first rules were complete. */
  killsInStart: number;
  /** Of the kills: with nothing left to do. Each restart after them wrote nothing. */
  killsAtRest: number;
  changes: number;
  /** Lines that other programs saw change between a kill and the end of the repair. */
  linesChanged: number;
  /** Ops and elements that the program says it wrote meanwhile. */
  writes: number;
  /** Established connections and downloads that were asked after kills, all of which answered. */
  connectionsAlive: number;
  /** From the restart until the kernel was as wanted. */
  repairMs: number[];
}

/**
 * Rounds, until there were enough kills. In each the cluster changes all the time, the program is
 * killed, and often killed again while it starts; then:
 * - the kernel, read by other programs, does what the objects say, and nothing else;
 * - what was connected before is alive: a connection of the whole run, and a download, each family;
 * - where the cluster stood still since the kill, no more was written than what had to change;
 * - killed and started once more with nothing to do, it writes nothing.
 * Rejects at the first that does not hold; the message has the seed.
 */
export async function killMany(options: KillOptions): Promise<Tally> {
  const random = new Random(options.seed);
  const cluster = await Cluster.make({ ...options, random });
  const run = new Run(options, cluster, random);
  try {
    await run.begin();
    while (run.tally.kills < options.count && !options.signal?.aborted) {
      await run.round();
      options.progress?.(run.tally);
    }
    return run.tally;
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`seed ${options.seed}, round ${run.tally.rounds + 1}: ${message}`);
  } finally {
    await run.end();
    await cluster.close();
  }
}

/** Bounds of a start that kills fall into: it takes about half a second where nothing else runs. */
const startLongestMs = paced(500);
const liveLongestMs = paced(600);
/** Long enough for the deletion of what is not used any more. */
const liveVeryLongMs = deferMs + paced(1000);
const patienceMs = paced(180_000);
/** Nothing was written for so long: in mode ipvs other programs see too little of what waits. */
const restMs: Readonly<Record<KilledMode, number>> = {
  nftables: paced(400),
  ipvs: 2 * deferMs + paced(400),
  iptables: paced(400),
};

/**
 * The most writes for a line that changes. A replaced element is two lines, and so are two writes;
 * a chain that comes is also flushed. Of iptables' chains those that change are written anew, with
 * the rules that stay.
 */
const writesForEach: Readonly<Record<KilledMode, number>> = {
  nftables: 1.25,
  ipvs: 1.25,
  iptables: 2,
};
/** For the few lines of a small repair. */
const writesBeside = 20;

class Run {
  readonly tally: Tally = {
    rounds: 0,
    kills: 0,
    killsInStart: 0,
    killsAtRest: 0,
    changes: 0,
    linesChanged: 0,
    writes: 0,
    connectionsAlive: 0,
    repairMs: [],
  };
  readonly #options: KillOptions;
  readonly #cluster: Cluster;
  readonly #random: Random;
  #program: Program;

  constructor(options: KillOptions, cluster: Cluster, random: Random) {
    this.#options = options;
    this.#cluster = cluster;
    this.#random = random;
    this.#program = cluster.start();
  }

  async begin(): Promise<void> {
    await this.#program.started(patienceMs);
    await this.#converged();
    await this.#open('kept');
  }

  async end(): Promise<void> {
    await this.#program.kill();
  }

  async round(): Promise<void> {
    await this.#open('download', { download: 'endless' });
    const over = new AbortController();
    const churn = this.#cluster.churn(this.#options.changesPerSecond, over.signal);
    const stopChurn = async (): Promise<void> => {
      over.abort();
      this.tally.changes += await churn;
    };
    await sleep(this.#random.below(this.#random.below(4) === 0 ? liveVeryLongMs : liveLongestMs));
    await this.#kill();
    for (let again = this.#random.below(5); again > 0; again -= 1) {
      this.#program = this.#cluster.start();
      await sleep(this.#random.below(startLongestMs));
      await this.#kill();
    }
    // In half of the rounds the world stands still while nobody looks, else until the repair.
    const still = this.#random.below(2) === 0;
    if (still) await stopChurn();
    const before = await this.#read();
    const startMs = performance.now();
    this.#program = this.#cluster.start();
    await this.#program.started(patienceMs);
    if (!still) await stopChurn();
    await this.#converged();
    this.tally.repairMs.push(performance.now() - startMs);
    await this.#alive();
    const after = await this.#rest();
    if (still) this.#compare(before, after);
    await this.#restart(after);
    this.tally.rounds += 1;
  }

  async #kill(): Promise<void> {
    const { complaints } = this.#program;
    await this.#program.kill();
    this.tally.kills += 1;
    if (!this.#program.ready) this.tally.killsInStart += 1;
    if (complaints.length > 0) throw new Error(`it complains: ${complaints.join('\n')}`);
  }

  #read(): Promise<Reading> {
    return read(this.#options.mode, this.#cluster.lab.node);
  }

  /** Polls until other programs read from the kernel what is wanted. */
  async #converged(): Promise<void> {
    const wanted = this.#cluster.life.wanted();
    const endMs = performance.now() + patienceMs;
    for (;;) {
      const found = await this.#read();
      const wrong = differences(found.frontends, wanted);
      if (wrong.length === 0) return;
      if (performance.now() > endMs) {
        throw new Error(`${wrong.length} frontends differ:\n${wrong.slice(0, 10).join('\n')}`);
      }
      await sleep(20);
    }
  }

  /** Nothing is left to do, not even to delete what is not used any more. */
  async #rest(): Promise<Reading> {
    const endMs = performance.now() + patienceMs;
    for (;;) {
      const found = await this.#read();
      const quiet = this.#program.quietMs >= restMs[this.#options.mode];
      if (quiet && found.unused.length === 0) return found;
      if (performance.now() > endMs) {
        throw new Error(`it does not come to rest, unused: ${found.unused.join(', ')}`);
      }
      await sleep(50);
    }
  }

  #compare(before: Reading, after: Reading): void {
    const { batches, writes } = this.#program;
    const lines = distance(before, after);
    this.tally.linesChanged += lines;
    this.tally.writes += writes;
    if (writes > writesForEach[this.#options.mode] * lines + writesBeside) {
      throw new Error(
        `${writes} writes for ${lines} lines that had to change: ${JSON.stringify(batches)}`,
      );
    }
  }

  /** Killed with nothing to do, it has nothing to do when it is back. */
  async #restart(before: Reading): Promise<void> {
    await this.#kill();
    this.tally.killsAtRest += 1;
    this.#program = this.#cluster.start();
    await this.#program.started(patienceMs);
    const { batches } = this.#program;
    const lines = distance(before, await this.#read());
    if (batches.length + lines > 0) {
      throw new Error(`a restart wrote, ${lines} lines differ: ${JSON.stringify(batches)}`);
    }
  }

  async #open(flow: string, options: { download?: 'endless' } = {}): Promise<void> {
    const { client } = this.#cluster.lab.actors;
    for (const family of FAMILIES) {
      const outcome = await client.open(flow + family, attempt(family), options);
      if (outcome.kind !== 'answered') throw new Error(`no new connection: ${outcome.kind}`);
    }
  }

  async #alive(): Promise<void> {
    const { client } = this.#cluster.lab.actors;
    for (const flow of FAMILIES.flatMap((family) => [`kept${family}`, `download${family}`])) {
      const outcome = await client.resume(flow, paced(3000));
      if (outcome.kind !== 'answered') throw new Error(`${flow} is ${outcome.kind}`);
      this.tally.connectionsAlive += 1;
    }
  }
}

function attempt(family: Family): Attempt {
  const to = { address: WEB[family], port: WEB_PORT };
  return { protocol: 'TCP', to, timeoutMs: paced(3000) };
}
