/**
 * The process that acts inside one namespace: `node agent.ts <actor name> <probe binary>`. It reads
 * requests and writes replies as JSON lines (outcome.ts), and ends with its standard input.
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Flow, Reply, Server, Transports } from './agent/flow.ts';
import { Probe, sctpOver } from './agent/probe.ts';
import { TcpFlow, tcp } from './agent/tcp.ts';
import { udp } from './agent/udp.ts';
import {
  type AgentReply,
  type AgentRequest,
  type Attempt,
  type Outcome,
  type RunResult,
  SOURCE_PORT_FIRST,
  SOURCE_PORT_LAST,
  type Tally,
} from './outcome.ts';

const CONCURRENT_MAX = 32;

/** The errno names that mean that the peer refused, and not our own namespace. */
const RESET_CODES: readonly string[] = ['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ECONNABORTED'];
/** A filter of our own namespace dropped the packet. For the client that is silence. */
const DROPPED_CODES: readonly string[] = ['EPERM', 'ETIMEDOUT'];

interface OpenFlow {
  readonly flow: Flow;
  readonly attempt: Attempt;
  readonly ownPort: number;
}

class Agent {
  readonly #name: string;
  readonly #probe: Probe;
  readonly #transports: Transports;
  readonly #servers = new Map<string, Promise<Server>>();
  readonly #flows = new Map<string, OpenFlow>();
  #nextPort = SOURCE_PORT_FIRST;

  constructor(name: string, probePath: string) {
    this.#name = name;
    this.#probe = new Probe(probePath);
    this.#transports = { TCP: tcp, UDP: udp, SCTP: sctpOver(this.#probe) };
  }

  async handle(request: AgentRequest): Promise<unknown> {
    switch (request.op) {
      case 'listen':
        return this.#listen(request);
      case 'connect':
        return this.#connect(request.attempt, request.count);
      case 'open':
        return this.#open(request);
      case 'resume':
        return this.#resume(request.flow, request.timeoutMs);
      case 'close':
        return this.#close(request.flow);
      case 'reset':
        return this.#reset();
      case 'flush-conntrack': {
        const { errno } = await this.#probe.request('flush-conntrack').done;
        if (errno !== undefined) throw new Error(`flush-conntrack: ${errno}`);
        return;
      }
      case 'run':
        return run(request.argv, request.input);
    }
  }

  async #listen({ protocol, at }: Extract<AgentRequest, { op: 'listen' }>): Promise<void> {
    const key = `${protocol} ${at.address} ${at.port}`;
    const server = this.#servers.get(key) ?? this.#transports[protocol].listen(at, this.#name);
    this.#servers.set(key, server);
    await server.catch((error: unknown) => {
      this.#servers.delete(key);
      throw error;
    });
  }

  async #connect(attempt: Attempt, count: number): Promise<Tally> {
    const counts = new Map<string, number>();
    let started = 0;
    const worker = async (): Promise<void> => {
      while (started < count) {
        started += 1;
        const opened = this.#flow(attempt);
        const outcome = JSON.stringify(await this.#ask(opened, attempt.timeoutMs));
        opened.flow.close();
        counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: Math.min(count, CONCURRENT_MAX) }, worker));
    return Array.from(counts, ([outcome, n]) => ({
      count: n,
      outcome: JSON.parse(outcome) as Outcome,
    }));
  }

  async #open(request: Extract<AgentRequest, { op: 'open' }>): Promise<Outcome> {
    this.#close(request.flow);
    const opened = this.#flow(request.attempt);
    this.#flows.set(request.flow, opened);
    const outcome = await this.#ask(opened, request.attempt.timeoutMs);
    if (request.download === 'endless' && opened.flow instanceof TcpFlow) {
      opened.flow.startDownload();
    }
    return outcome;
  }

  async #resume(name: string, timeoutMs: number): Promise<Outcome> {
    const opened = this.#flows.get(name);
    if (opened === undefined) throw new Error(`no open flow ${name}`);
    return this.#ask(opened, timeoutMs);
  }

  #close(name: string): void {
    this.#flows.get(name)?.flow.close();
    this.#flows.delete(name);
  }

  async #reset(): Promise<void> {
    for (const name of [...this.#flows.keys()]) this.#close(name);
    for (const server of this.#servers.values()) (await server).close();
    const usedSctp = [...this.#servers.keys()].some((key) => key.startsWith('SCTP'));
    this.#servers.clear();
    if (usedSctp) await this.#probe.restart();
  }

  /** The agent selects source ports itself, so that they identify the flow of an ICMP error. */
  #flow(attempt: Attempt): OpenFlow {
    const ownPort = attempt.from?.port ?? this.#nextPort;
    this.#nextPort = this.#nextPort === SOURCE_PORT_LAST ? SOURCE_PORT_FIRST : this.#nextPort + 1;
    return { flow: this.#transports[attempt.protocol].flow(attempt, ownPort), attempt, ownPort };
  }

  async #ask({ flow, attempt, ownPort }: OpenFlow, timeoutMs: number): Promise<Outcome> {
    // TCP reports ECONNREFUSED for a reset and for port unreachable, and does not report errors
    // that it takes for temporary ones. So the packets themselves are watched, too.
    const watch = this.#probe.watchIcmp(attempt, ownPort);
    let reply = await Promise.race([flow.ask(timeoutMs), watch.arrived]);
    if (reply.kind === 'failed') {
      await this.#probe.request('icmp').done;
      reply = watch.seen ?? reply;
    }
    watch.stop();
    return outcomeOf(reply);
  }
}

function outcomeOf(reply: Reply): Outcome {
  switch (reply.kind) {
    case 'answered': {
      const { by, port, source } = reply.identity;
      return { kind: 'answered', by, port, source, own: reply.own };
    }
    case 'failed':
      if (RESET_CODES.includes(reply.code)) return { kind: 'reset' };
      if (DROPPED_CODES.includes(reply.code)) return { kind: 'timeout' };
      return { kind: 'error', detail: reply.code };
    default:
      return reply;
  }
}

function run(argv: readonly string[], input: string): Promise<RunResult> {
  return new Promise((resolve) => {
    const child = spawn(argv[0] ?? '', argv.slice(1), { stdio: 'pipe' });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data: Buffer) => {
      stdout += data.toString();
    });
    child.stderr.on('data', (data: Buffer) => {
      stderr += data.toString();
    });
    child.on('error', (error) => resolve({ code: 127, stdout, stderr: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 128, stdout, stderr }));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}

function main([name, probePath]: readonly string[]): void {
  if (name === undefined || probePath === undefined) throw new Error('usage: agent.ts NAME PROBE');
  const agent = new Agent(name, probePath);
  const reply = (line: AgentReply): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
  const lines = createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const { id, request } = JSON.parse(line) as { id: number; request: AgentRequest };
    agent.handle(request).then(
      (result) => reply({ id, result }),
      (error: Error) => reply({ id, error: error.message }),
    );
  });
  lines.on('close', () => process.exit(0));
}

main(process.argv.slice(2));
