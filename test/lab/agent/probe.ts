import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Attempt, IcmpReason, Identity, Protocol } from '../outcome.ts';
import type { Flow, Reply, Server, Transport } from './flow.ts';

/** One ICMP error as native/icmp_watch.h prints it; the addresses are those of our own packet. */
interface IcmpError {
  readonly type: number;
  readonly code: number;
  readonly protocol: number;
  readonly port: number;
  readonly to: string;
  readonly toPort: number;
  readonly from: string;
}

interface ProbeReply {
  readonly id: number;
  readonly errno?: string;
  readonly own?: string;
  readonly answer?: Identity;
}

const PROTOCOL_NUMBER: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17, SCTP: 132 };

/** RFC 792 and RFC 1812: type/code of ICMP errors. */
const ICMP_REASONS: Readonly<Record<string, IcmpReason>> = {
  '3/0': 'no-route',
  '3/1': 'host-unreachable',
  '3/2': 'protocol-unreachable',
  '3/3': 'port-unreachable',
  '3/9': 'admin-prohibited',
  '3/10': 'admin-prohibited',
  '3/13': 'admin-prohibited',
  '11/0': 'time-exceeded',
};

/** RFC 4443. An unknown next header is a parameter problem there. */
const ICMPV6_REASONS: Readonly<Record<string, IcmpReason>> = {
  '1/0': 'no-route',
  '1/1': 'admin-prohibited',
  '1/3': 'host-unreachable',
  '1/4': 'port-unreachable',
  '3/0': 'time-exceeded',
  '4/1': 'protocol-unreachable',
};

/** The ICMP errors about one flow. `arrived` resolves with the first, `seen` is it. */
export interface IcmpWatch {
  readonly arrived: Promise<Reply>;
  readonly seen: Reply | undefined;
  stop(): void;
}

/** The native probe of this namespace: ICMP errors, SCTP, the connection-tracking table. */
export class Probe {
  readonly #path: string;
  readonly #watches = new Map<string, (reply: Reply) => void>();
  readonly #waiting = new Map<number, (reply: ProbeReply) => void>();
  #child: ChildProcess;
  #lastId = 0;

  constructor(path: string) {
    this.#path = path;
    this.#child = this.#start();
  }

  /** All SCTP servers and flows end with their process; when this resolves their ports are free. */
  async restart(): Promise<void> {
    const old = this.#child;
    this.#child = this.#start();
    const ended = once(old, 'exit');
    old.kill('SIGKILL');
    await ended;
  }

  /** `done` never rejects: an errno is part of the reply. */
  request(words: string): { readonly id: number; readonly done: Promise<ProbeReply> } {
    this.#lastId += 1;
    const id = this.#lastId;
    this.#child.stdin?.write(`${id} ${words}\n`);
    return { id, done: new Promise((resolve) => this.#waiting.set(id, resolve)) };
  }

  watchIcmp({ protocol, to }: Attempt, ownPort: number): IcmpWatch {
    const key = flowKey(PROTOCOL_NUMBER[protocol], ownPort, to.address, to.port);
    const { promise: arrived, resolve } = Promise.withResolvers<Reply>();
    let seen: Reply | undefined;
    this.#watches.set(key, (reply) => {
      seen ??= reply;
      resolve(reply);
    });
    return {
      arrived,
      get seen() {
        return seen;
      },
      stop: () => void this.#watches.delete(key),
    };
  }

  #start(): ChildProcess {
    const child = spawn(this.#path, { stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const message = JSON.parse(line) as ProbeReply | { readonly icmp: IcmpError };
      if ('icmp' in message) {
        this.#onIcmp(message.icmp);
      } else {
        this.#waiting.get(message.id)?.(message);
        this.#waiting.delete(message.id);
      }
    });
    child.on('exit', (code) => {
      if (this.#child === child) throw new Error(`probe ended with ${code}`);
    });
    return child;
  }

  #onIcmp({ type, code, protocol, port, to, toPort, from }: IcmpError): void {
    const reasons = to.includes(':') ? ICMPV6_REASONS : ICMP_REASONS;
    const typeAndCode = `${type}/${code}` as const;
    const icmp = reasons[typeAndCode] ?? typeAndCode;
    this.#watches.get(flowKey(protocol, port, to, toPort))?.({ kind: 'unreachable', icmp, from });
  }
}

function flowKey(protocol: number, port: number, to: string, toPort: number): string {
  return `${protocol} ${port} ${to} ${toPort}`;
}

class SctpFlow implements Flow {
  readonly #probe: Probe;
  readonly #attempt: Attempt;
  readonly #ownPort: number;
  #opened: number | undefined;

  constructor(probe: Probe, attempt: Attempt, ownPort: number) {
    this.#probe = probe;
    this.#attempt = attempt;
    this.#ownPort = ownPort;
  }

  async ask(timeoutMs: number): Promise<Reply> {
    const { from, to } = this.#attempt;
    const words =
      this.#opened === undefined
        ? `open ${from?.address ?? '-'} ${this.#ownPort} ${to.address} ${to.port} ${timeoutMs}`
        : `ask ${this.#opened} ${timeoutMs}`;
    const { id, done } = this.#probe.request(words);
    this.#opened ??= id;
    const reply = await done;
    if (reply.errno === 'EAGAIN') return { kind: 'timeout' };
    if (reply.errno === 'EPIPE') return { kind: 'closed' };
    if (reply.errno !== undefined) return { kind: 'failed', code: reply.errno };
    return { kind: 'answered', identity: reply.answer!, own: reply.own! };
  }

  close(): void {
    if (this.#opened !== undefined) this.#probe.request(`close ${this.#opened}`);
  }
}

export function sctpOver(probe: Probe): Transport {
  return {
    async listen(at, name): Promise<Server> {
      const { errno } = await probe.request(`listen ${at.address} ${at.port} ${name}`).done;
      if (errno !== undefined) throw new Error(errno);
      return { close: () => {} };
    },
    flow: (attempt, ownPort) => new SctpFlow(probe, attempt, ownPort),
  };
}
