import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { ActorName } from './addresses.ts';
import { BUILD_DIRECTORY } from './native/build.ts';
import type { AgentReply, AgentRequest, Attempt, Outcome, RunResult, Tally } from './outcome.ts';

const AGENT_PATH = fileURLToPath(new URL('./agent.ts', import.meta.url));

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly op: string;
}

export type OpenOptions = Pick<Extract<AgentRequest, { op: 'open' }>, 'download'>;

/** The agent of one namespace, for tests. Methods reject when the agent fails. */
export class Actor {
  readonly name: ActorName;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  constructor(name: ActorName, namespace: string, probePath: string) {
    this.name = name;
    const argv = ['netns', 'exec', namespace, process.execPath, AGENT_PATH, name, probePath];
    // Six agents start together, and the cache halves the cost of each.
    const env = { ...process.env, NODE_COMPILE_CACHE: path.join(BUILD_DIRECTORY, 'agent-cache') };
    this.#child = spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'], env });
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
    await this.#request({ op: 'listen', protocol, at: { address, port } });
  }

  async connect(attempt: Attempt, count: number): Promise<Tally> {
    return (await this.#request({ op: 'connect', attempt, count })) as Tally;
  }

  /** Connects, asks once and keeps the connection under a name; see AgentRequest. */
  async open(flow: string, attempt: Attempt, options: OpenOptions = {}): Promise<Outcome> {
    return (await this.#request({ op: 'open', flow, attempt, ...options })) as Outcome;
  }

  async resume(flow: string, timeoutMs: number): Promise<Outcome> {
    return (await this.#request({ op: 'resume', flow, timeoutMs })) as Outcome;
  }

  async close(flow: string): Promise<void> {
    await this.#request({ op: 'close', flow });
  }

  async reset(): Promise<void> {
    await this.#request({ op: 'reset' });
  }

  async flushConntrack(): Promise<void> {
    await this.#request({ op: 'flush-conntrack' });
  }

  /** Runs a command inside the namespace; rejects unless it exits with 0. */
  async run(argv: readonly string[], input = ''): Promise<string> {
    const result = (await this.#request({ op: 'run', argv, input })) as RunResult;
    if (result.code === 0) return result.stdout;
    throw new Error(`lab: ${this.name}: ${argv.join(' ')}: exit ${result.code}: ${result.stderr}`);
  }

  end(): void {
    this.#child.stdin?.end();
  }

  #request(request: AgentRequest): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      if (this.#child.exitCode !== null) {
        reject(new Error(`lab: agent of ${this.name} has ended`));
        return;
      }
      this.#waiting.set(id, { resolve, reject, op: request.op });
      this.#child.stdin?.write(`${JSON.stringify({ id, request })}\n`);
    });
  }
}
