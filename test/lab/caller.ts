/** A client that opens new connections at a steady rate, and notes who answers each. IPv4 only. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('./caller-main.ts', import.meta.url));

export interface Call {
  /** From 0, in the order in which they began. */
  readonly number: number;
  /** By `monotonicMs` of `load.ts`. */
  readonly startedMs: number;
  readonly tookMs: number;
  /** The address that answered, which a server of `serveLoad` says; undefined: the call failed. */
  readonly by: string | undefined;
}

export interface Calling {
  readonly address: string;
  readonly port: number;
  readonly perSecond: number;
  /** A call that is not answered by then has failed. */
  readonly timeoutMs: number;
  /**
   * Calls that a busy machine could not begin in time are made later, all together, as many clients
   * would. Default: they are left out, so that a slow machine is not kept busy.
   */
  readonly makesUp?: boolean;
  /** A folder of cgroup2 that the client is in from its beginning. Default: as this process. */
  readonly cgroup?: string | undefined;
}

const entering = 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"';

export class Caller {
  /** Those that are over, in the order in which they ended. */
  readonly calls: Call[] = [];
  readonly #child: ChildProcess;

  /** `pid` is a process of the network namespace that the connections come from. */
  constructor(pid: number, calling: Calling) {
    const { address, cgroup, makesUp = false, perSecond, port, timeoutMs } = calling;
    const settings = [address, port, perSecond, timeoutMs, makesUp].map(String);
    const enter = cgroup === undefined ? [] : ['sh', '-c', entering, 'sh', cgroup];
    const run = [process.execPath, program, ...settings];
    const [command, ...argv] = [...enter, 'nsenter', '-t', String(pid), '-n', ...run];
    this.#child = spawn(command!, argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#child.stdout! }).on('line', (line) => {
      const [number, startedMs, tookMs, by] = line.split(' ');
      this.calls.push({
        number: Number(number),
        startedMs: Number(startedMs),
        tookMs: Number(tookMs),
        by: by || undefined,
      });
    });
  }

  /** Calls that began since then, and are over. */
  since(startedMs: number): readonly Call[] {
    return this.calls.filter((call) => call.startedMs >= startedMs);
  }

  /** Whether all calls that began before a moment are over, and one that began later is, too. */
  areOver(beforeMs: number): boolean {
    const later = this.since(beforeMs).map(({ number }) => number);
    const first = Math.min(...later);
    return later.length > 0 && this.calls.filter(({ number }) => number < first).length === first;
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once('close', resolve));
    this.#child.stdin!.end();
    await ended;
  }
}
