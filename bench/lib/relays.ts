/**
 * A client, a node and a server, and on the node three programs that carry TCP connections from one
 * to the other: Fairlead in mode userspace, a relay of C++ (`bench/native/many.cc`), and `pipe` of
 * Node.js.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { endpoint, Stage } from '../connect.ts';

const root = resolve(import.meta.dirname, '..', '..');
const many = join(root, 'build', 'bench', 'many');
const pipeRelay = join(import.meta.dirname, 'pipe-relay-main.ts');

/** What the server does with connections to each of its ports; see `many.cc`. */
const kinds = ['ask', 'sink', 'push'] as const;

const serverPort = 8080;
const node = '10.1.0.1';
const clusterIP = '10.96.0.1';
/** Addresses of the client's namespace, from `10.1.0.2` on. */
const clientsMax = 8;
const firstClient = '10.1.0.2';

/** One way to the server. */
export interface Way {
  readonly name: string;
  readonly address: string;
  /** Of the first kind. */
  readonly port: number;
  /** Undefined: no program is on this way. */
  readonly pid: number | undefined;
}

interface Measured {
  readonly perSecond: number;
  /** Of the process on the way, for all of `count`. */
  readonly processorSeconds: number;
  /** Those of the time before the measurement, in which buffers get their sizes, too. */
  readonly count: number;
}

export class RelayStage extends Stage {
  readonly #folder = mkdtempSync(join(tmpdir(), 'fairlead-relays-'));
  readonly #children: ChildProcess[] = [];

  constructor() {
    super([many, 'serve', String(serverPort)]);
    this.node.run('ip', ['link', 'set', 'lo', 'up']);
    const more = Array.from({ length: clientsMax - 1 }, (_, i) => {
      return `addr add 10.1.0.${i + 3}/24 dev eth0`;
    });
    this.client.run('ip', ['-batch', '-'], more.join('\n'));
  }

  /** Starts all programs; resolves when each carries connections. */
  async open(): Promise<readonly Way[]> {
    await this.ready();
    const to = [endpoint, String(serverPort), String(kinds.length)];
    const ways = [
      { name: 'direct', address: endpoint, port: serverPort, pid: undefined },
      { name: 'relay', address: node, port: 9080, ...this.#run([many, 'relay', '9080', ...to]) },
      {
        ...{ name: 'pipe of Node.js', address: node, port: 9180 },
        ...this.#run([process.execPath, pipeRelay, '9180', ...to]),
      },
      { name: 'Fairlead', address: clusterIP, port: 80, ...this.#run(this.#product()) },
    ];
    for (const way of ways) await this.#answers(way);
    return ways;
  }

  #product(): readonly string[] {
    const cluster = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    writeFileSync(join(this.#folder, 'cluster.json'), cluster);
    return [
      ...[join(root, 'bin', 'fairlead'), `--manifests=${this.#folder}`, '--proxy-mode=userspace'],
      ...['--hostname-override=node-1', '--conntrack-max-per-core=0'],
      ...['--conntrack-tcp-timeout-established=0s', '--conntrack-tcp-timeout-close-wait=0s'],
    ];
  }

  #run(argv: readonly string[]): { readonly pid: number } {
    const child = spawn('ip', ['netns', 'exec', this.node.name, ...argv], { stdio: 'ignore' });
    this.#children.push(child);
    return { pid: child.pid! };
  }

  async #answers(way: Way): Promise<void> {
    for (let waitedMs = 0; waitedMs < 60_000; waitedMs += 200) {
      if (this.measure('ask', way, 1, 50, 'ignore').count > 0) return;
      await sleep(200);
    }
    throw new Error(`${way.name} carries no connections`);
  }

  /** Of connections that are made, or of bytes. */
  measure(
    kind: 'ask' | 'stream',
    { address, pid, port }: Way,
    connections: number,
    ms: number,
    errors: 'inherit' | 'ignore' = 'inherit',
  ): Measured {
    const before = pid === undefined ? 0 : processorSeconds(pid);
    const at = String(kind === 'ask' ? port : port + 1);
    const argv = [kind, address, at, String(connections), String(ms)];
    const printed = this.client.run(many, argv, '', errors);
    const { all, count, seconds } = JSON.parse(printed) as Record<string, number>;
    const spent = pid === undefined ? Number.NaN : processorSeconds(pid) - before;
    return { perSecond: count! / seconds!, processorSeconds: spent, count: all! };
  }

  /** Runs `work` while this number of connections is open. */
  async holding<T>(
    how: 'idle' | 'push',
    { address, port }: Way,
    connections: number,
    clients: number,
    work: () => Promise<T>,
  ): Promise<T> {
    const at = String(how === 'idle' ? port : port + 2);
    const argv = [how, address, at, String(connections), firstClient, String(clients)];
    const inside = ['netns', 'exec', this.client.name, many, 'hold', ...argv];
    const holder = spawn('ip', inside, { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
      await once(holder.stdout, 'data');
      return await work();
    } finally {
      const ended = once(holder, 'exit');
      holder.stdin.end();
      await ended;
      while (this.kernelBytes() > 1e6) await sleep(100);
    }
  }

  /** Memory of the kernel for all TCP sockets of the node, as `ss` reads it. */
  kernelBytes(): number {
    let sum = 0;
    const shown = this.node.run('ss', ['-Htmn']);
    for (const [, received, reserved, queued, backlog] of shown.matchAll(
      /skmem:\(r(\d+),rb\d+,t\d+,tb\d+,f(\d+),w(\d+),o\d+,bl(\d+)/g,
    )) {
      // What is reserved is signed, and shown as if it were not.
      sum += Number(received) + (Number(reserved) | 0) + Number(queued) + Number(backlog);
    }
    return sum;
  }

  override close(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    super.close();
    rmSync(this.#folder, { recursive: true });
  }
}

/** The processor time that a process has taken. */
function processorSeconds(pid: number): number {
  // Its name, which may have spaces, is in parentheses.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Of /proc, on every machine (USER_HZ). */
const ticksPerSecond = 100;

/** What is resident of a process. */
export function residentBytes(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return Number(kilobytes) * 1024;
}

const objects = [
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'default', name: 'many' },
    spec: {
      ...{ clusterIP, clusterIPs: [clusterIP] },
      ports: kinds.map((name, i) => ({ name, port: 80 + i, targetPort: serverPort + i })),
    },
  },
  {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      ...{ namespace: 'default', name: 'many-1' },
      labels: { 'kubernetes.io/service-name': 'many' },
    },
    addressType: 'IPv4',
    ports: kinds.map((name, i) => ({ name, port: serverPort + i, protocol: 'TCP' })),
    endpoints: [{ addresses: [endpoint], conditions: { ready: true } }],
  },
];
