import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { Actor } from './actor.ts';
import { ACTORS, type ActorName, NODE_NAME, PLACES, type Place } from './addresses.ts';
import { buildAgent } from './native/build.ts';
import type { NodeUnderTest } from './proxy.ts';
import { setupScript } from './topology.ts';

const NAME_PATTERN = /^fl-(\d+)-(\d+)-\d+-/;

/**
 * Removes namespaces and the processes in them. It waits for the end of its standard input, which
 * the kernel closes even if the test process is killed.
 */
const JANITOR = `read -r _ || :
for namespace; do
  for pid in $(ip netns pids "$namespace"); do kill -9 "$pid"; done
  ip netns del "$namespace"
done 2>/dev/null`;

let labsMade = 0;

/** A set of connected namespaces with an agent in each. */
export interface Lab {
  readonly actors: Readonly<Record<ActorName, Actor>>;
  readonly node: NodeUnderTest;
  /** Cleans up between stories: closes flows and servers, empties ruleset and conntrack table. */
  reset(): Promise<void>;
  /** Ends every process in the namespaces and removes them. */
  close(): Promise<void>;
}

/** Makes a lab. Needs root, of the machine or of a user namespace (see README.md). */
export async function createLab(): Promise<Lab> {
  if (process.getuid?.() !== 0) {
    throw new Error('lab: needs root, or a user namespace as described in test/lab/README.md');
  }
  await removeLeftovers();
  labsMade += 1;
  const prefix = `fl-${process.pid}-${startTimeOf(process.pid)}-${labsMade}`;
  const ns = (place: Place): string => `${prefix}-${place}`;
  const janitor = startJanitor(PLACES.map(ns));
  try {
    const agentPath = buildAgent();
    await runScript(setupScript(ns));
    const actors = Object.fromEntries(
      ACTORS.map((name) => [name, new Actor(name, ns(name), agentPath)]),
    ) as Record<ActorName, Actor>;
    await Promise.all(Object.values(actors).map((actor) => actor.reset()));
    return new NamespaceLab(actors, ns('node'), janitor);
  } catch (error) {
    await finish(janitor);
    throw error;
  }
}

class NamespaceLab implements Lab {
  readonly actors: Readonly<Record<ActorName, Actor>>;
  readonly node: NodeUnderTest;
  readonly #janitor: ChildProcess;

  constructor(
    actors: Readonly<Record<ActorName, Actor>>,
    namespace: string,
    janitor: ChildProcess,
  ) {
    this.actors = actors;
    this.#janitor = janitor;
    this.node = {
      nodeName: NODE_NAME,
      namespace,
      namespacePath: `/proc/${actors.node.pid}/ns/net`,
      run: (argv, input) => actors.node.run(argv, input),
    };
  }

  async reset(): Promise<void> {
    await Promise.all(Object.values(this.actors).map((actor) => actor.reset()));
    await this.actors.node.run(['nft', 'flush', 'ruleset']);
    await this.actors.node.flushConntrack();
  }

  async close(): Promise<void> {
    for (const actor of Object.values(this.actors)) actor.end();
    await finish(this.#janitor);
  }
}

/** Starts it in a session of its own, so that a Ctrl-C at the terminal does not end it. */
function startJanitor(namespaces: readonly string[]): ChildProcess {
  return spawn('sh', ['-c', JANITOR, 'janitor', ...namespaces], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
}

async function finish(janitor: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => janitor.once('exit', resolve));
  janitor.stdin?.end();
  await ended;
}

async function runScript(script: string): Promise<void> {
  const running = promisify(execFile)('sh', ['-e'], { encoding: 'utf8' });
  running.child.stdin?.end(script);
  await running;
}

/** The start time in clock ticks since boot. Together with the pid it identifies a process. */
function startTimeOf(pid: number): string | undefined {
  try {
    // Field 22 of proc_pid_stat(5), counted behind the command name, which may contain blanks.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
}

/** Removes namespaces whose test process has ended, and whose janitor has, too. */
async function removeLeftovers(): Promise<void> {
  const { stdout } = await promisify(execFile)('ip', ['netns', 'list'], { encoding: 'utf8' });
  const leftovers = stdout
    .split('\n')
    .map((line) => line.split(' ')[0] ?? '')
    .filter((name) => {
      const [, pid, startTime] = NAME_PATTERN.exec(name) ?? [];
      return pid !== undefined && startTimeOf(Number(pid)) !== startTime;
    });
  if (leftovers.length > 0) await finish(startJanitor(leftovers));
}
