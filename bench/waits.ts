/**
 * Do packets wait while a cluster is loaded? Each millisecond a connection is made through a
 * Service that was there before, and another one through rules of others, and a byte goes to and
 * fro on an open connection of that Service, while thousands of Services come, while the proxy is
 * restarted, while all endpoints are replaced, and while it starts with an empty kernel
 * (kubernetes/kubernetes#139328). With KUBE_PROXY it also measures kube-proxy.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeApi } from '../test/fake/api-server-process.ts';
import { buildLoad } from '../test/lab/native/build.ts';
import { buildPrograms, endpoint, port, Stage } from './connect.ts';
import { buildProduct, node } from './lib/api-rig.ts';
import { type Size, sizeName } from './lib/cluster.ts';
import { KubeProxy } from './lib/kube-proxy.ts';
import { MarkedCluster, marked, NotInTime } from './lib/marked-cluster.ts';
import { Product } from './lib/product.ts';
import { number, table } from './lib/stats.ts';

const size: Size = { services: 44_000, endpoints: 1 };
const quietMs = 5000;
/** The longest time that a phase is measured. */
const phaseMaxMs = 60_000;
const attemptEveryMs = 200;
const connectLoop = join(resolve(import.meta.dirname, '..'), 'build', 'bench', 'connect_loop');
/**
 * The first processor is the packets': on a kernel that does not preempt itself, a process waits for
 * its processor as long as any system call there takes, and packets of a network device do not.
 */
const first = ['taskset', '--cpu-list', '0', 'chrt', '--rr', '2'];

/** Leaves the first processor to packets, also for all processes that are started from here. */
function makeRoom(): void {
  const others = availableParallelism() > 1 ? `1-${availableParallelism() - 1}` : '0';
  const own = ['--all-tasks', '--pid', '--cpu-list', others, String(process.pid)];
  execFileSync('taskset', own, { stdio: 'ignore' });
}

const ofOthers = '10.200.0.2';
const rulesOfOthers = `table ip others { chain prerouting {
  type nat hook prerouting priority -101;
  ip daddr ${ofOthers} tcp dport 80 dnat to ${endpoint}:${port}
}
}
`;

type Path = 'open' | 'connect' | 'others';
/** The first Service of a MarkedCluster. */
const existing = '10.200.1.1';
const paths: Readonly<Record<Path, readonly [way: string, address: string]>> = {
  open: ['open', existing],
  connect: ['new', existing],
  others: ['new', ofOthers],
};

interface Paced {
  readonly count: number;
  readonly failed: number;
  readonly p50Us: number;
  readonly p999Us: number;
  readonly maxUs: number;
}

interface Proxy {
  stop(): Promise<void>;
}

interface Phase {
  readonly name: string;
  /** Undefined: not within `phaseMaxMs`. */
  readonly inForceMs: number | undefined;
  readonly paced: Readonly<Partial<Record<Path, Paced>>>;
}

export async function waits(): Promise<string> {
  buildProduct();
  buildPrograms();
  makeRoom();
  const fairlead = (stage: Stage, api: FakeApi): Proxy => {
    const product = new Product(stage.node, api.kubeconfig, [], { isProbed: false });
    // Whether it is in force is found by packets.
    product.programmedMs.catch(() => {});
    return product;
  };
  const rows = await measure('Fairlead', fairlead);
  const binary = process.env.KUBE_PROXY;
  if (binary !== undefined) {
    const start = (stage: Stage, api: FakeApi) => new KubeProxy(binary, stage.node, api.kubeconfig);
    rows.push(...(await measure('kube-proxy', start)));
  }
  const each = ['p50', 'p99.9', 'max'];
  const head = ['', 'in force', 'open', ...each.slice(1), 'connect', ...each.slice(1)];
  const what = `Each millisecond a byte to and fro, and connections, among ${sizeName(size)}`;
  return [
    `${what}: p50, p99.9 and the longest time from when it was due; ms`,
    table([...head, 'others', ...each.slice(1), 'failed'], rows),
  ].join('\n\n');
}

async function measure(
  name: string,
  start: (stage: Stage, api: FakeApi) => Proxy,
): Promise<string[][]> {
  const stage = new Stage([...first, buildLoad(), 'serve', port]);
  let api: FakeApi | undefined;
  let proxy: Proxy | undefined;
  try {
    await stage.ready();
    stage.node.run('ip', ['link', 'set', 'lo', 'up']);
    // 2,000 connections a second end with a reset.
    stage.node.run('sysctl', ['-qw', 'net.netfilter.nf_conntrack_tcp_timeout_close=1']);
    stage.node.run('nft', ['-f', '-'], rulesOfOthers);
    api = await FakeApi.start(stage.node);
    await api.ask({ do: 'apply', object: node });
    const cluster = new MarkedCluster(stage, api, attemptEveryMs);
    await cluster.add();
    proxy = start(stage, api);
    await cluster.works(existing, phaseMaxMs);
    const phases: Phase[] = [];
    const during = async (what: string, used: readonly Path[], work: () => Promise<unknown>) => {
      phases.push(await phase(stage, `${name}, ${what}`, used, work));
    };
    const all = Object.keys(paths) as Path[];
    await during('nothing happens', all, () => sleep(quietMs));
    await during('all Services come', all, async () => {
      await api!.ask({ do: 'populate', ...size });
      await cluster.mark(phaseMaxMs);
    });
    await during('restart', all, async () => {
      await proxy!.stop();
      proxy = start(stage, api!);
      await cluster.mark(phaseMaxMs);
    });
    await during('all endpoints are replaced', all, async () => {
      await api!.ask({ do: 'replace', count: size.services, except: `${marked}/` });
      await cluster.mark(phaseMaxMs);
    });
    await proxy.stop();
    stage.node.run('nft', ['flush', 'ruleset']);
    stage.node.run('nft', ['-f', '-'], rulesOfOthers);
    await during('start, empty kernel', ['others'], async () => {
      proxy = start(stage, api!);
      await cluster.mark(phaseMaxMs);
    });
    return phases.map(cells);
  } finally {
    await proxy?.stop();
    await api?.close();
    stage.close();
  }
}

async function phase(
  stage: Stage,
  name: string,
  used: readonly Path[],
  work: () => Promise<unknown>,
): Promise<Phase> {
  const pacers = used.map((path) => [path, new Pacer(stage, ...paths[path])] as const);
  const fromMs = performance.now();
  const isInForce = await work().then(
    () => true,
    (error: unknown) => {
      if (error instanceof NotInTime) return false;
      throw error;
    },
  );
  const tookMs = performance.now() - fromMs;
  const found = await Promise.all(pacers.map(async ([path, one]) => [path, await one.end()]));
  return { name, inForceMs: isInForce ? tookMs : undefined, paced: Object.fromEntries(found) };
}

function cells({ inForceMs, name, paced }: Phase): string[] {
  const times = (Object.keys(paths) as Path[]).flatMap((path) => {
    const one = paced[path];
    if (one === undefined) return ['–', '–', '–'];
    return [one.p50Us, one.p999Us, one.maxUs].map((us) => number(us / 1000));
  });
  const failed = Object.values(paced).reduce((sum, one) => sum + one.failed, 0);
  const inForce = inForceMs === undefined ? `> ${number(phaseMaxMs)}` : number(inForceMs);
  return [name, inForce, ...times, number(failed)];
}

/** `connect_loop pace`, in the client's namespace. */
class Pacer {
  readonly #child: ChildProcess;
  #printed = '';

  constructor(stage: Stage, way: string, address: string) {
    const pace = [...first, connectLoop, 'pace', way, address, '80'];
    const argv = ['netns', 'exec', stage.client.name, ...pace];
    this.#child = spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.#printed += text;
    });
  }

  async end(): Promise<Paced> {
    const ended = once(this.#child, 'close');
    this.#child.stdin!.end();
    await ended;
    return JSON.parse(this.#printed) as Paced;
  }
}
