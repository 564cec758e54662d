import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { ActorName } from './addresses.ts';
import type { AgentReply, Attempt, Outcome, RunResult, Tally } from './outcome.ts';

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly op: string;
}

interface OpenOptions {
  /** TCP only: after naming itself the server sends 16 KiB every 5 ms, until asked again. */
  readonly download?: 'endless' | undefined;
}

/** An attempt in the words of a request. */
function wordsOf({ protocol, from, to, timeoutMs }: Attempt): string[] {
  const own = [from?.address ?? '-', from?.port ?? 0];
  return [protocol, ...own, to.address, to.port, Math.ceil(timeoutMs)].map(String);
}

/** Text without blanks, as native/agent.cc reads it. */
function hexOf(text: string): string {
  return `x${Buffer.from(text).toString('hex')}`;
}

/**
 * The agent of one namespace, for tests; without a name, of that of this process. Methods reject
 * when the agent fails.
 */
export class Actor {
  readonly name: ActorName;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  constructor(name: ActorName, namespace: string | undefined, agentPath: string) {
    this.name = name;
    const inside = namespace === undefined ? [] : ['ip', 'netns', 'exec', namespace];
    const [program, ...args] = [...inside, agentPath, name];
    this.#child = spawn(program!, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#child.stdout! }).on('line', (line) => {
      const reply = JSON.parse(line) as AgentReply;
      const waiting = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if (reply.error === undefined) waiting?.resolve(reply.result);
      else waiting?.reject(new Error(`lab: ${name}: ${waiting.op}: ${reply.error}`));
    });
    this.#child.stdin!.on('error', () => {});
    this.#child.on('close', (code) => {
      for (const { reject, op } of this.#waiting.values()) {
        reject(new Error(`lab: agent of ${name} ended with ${code} during ${op}`));
      }
      this.#waiting.clear();
    });
  }

  /** The agent's process is in the namespace, so /proc/<pid>/ns/net is the namespace. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Starts a server that answers with this actor's name. A running one is not an error. */
  async listen(protocol: Attempt['protocol'], address: string, port: number): Promise<void> {
    await this.#request('listen', protocol, address, String(port));
  }

  /** `count` connections, at most 32 at the same time; each asks once and is closed. */
  async connect(attempt: Attempt, count: number): Promise<Tally> {
    return (await this.#request('connect', ...wordsOf(attempt), String(count))) as Tally;
  }

  /** Connects, asks once and keeps the connection under a name. */
  async open(flow: string, attempt: Attempt, { download }: OpenOptions = {}): Promise<Outcome> {
    const words = [hexOf(flow), ...wordsOf(attempt)];
    const more = download === undefined ? [] : ['download'];
    return (await this.#request('open', ...words, ...more)) as Outcome;
  }

  /** Asks again on an open flow, or ends its download. */
  async resume(flow: string, timeoutMs: number): Promise<Outcome> {
    return (await this.#request('resume', hexOf(flow), String(Math.ceil(timeoutMs)))) as Outcome;
  }

  async close(flow: string): Promise<void> {
    await this.#request('close', hexOf(flow));
  }

  /** Closes all flows and servers. */
  async reset(): Promise<void> {
    await this.#request('reset');
  }

  /** Empties the connection-tracking table of the namespace. */
  async flushConntrack(): Promise<void> {
    await this.#request('flush-conntrack');
  }

  /** Runs a command inside the namespace; rejects unless it exits with 0. */
  async run(argv: readonly string[], input = ''): Promise<string> {
    const result = (await this.#request('run', hexOf(input), ...argv.map(hexOf))) as RunResult;
    if (result.code === 0) return result.stdout;
    throw new Error(`lab: ${this.name}: ${argv.join(' ')}: exit ${result.code}: ${result.stderr}`);
  }

  end(): void {
    this.#child.stdin?.end();
  }

  /** Words of a request: see native/agent.cc. */
  #request(op: string, ...words: readonly string[]): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      if (this.#child.exitCode !== null) {
        reject(new Error(`lab: agent of ${this.name} has ended`));
        return;
      }
      this.#waiting.set(id, { resolve, reject, op });
      this.#child.stdin?.write(`${[id, op, ...words].join(' ')}\n`);
    });
  }
}
