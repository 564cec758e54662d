/**
 * What does an idle node cost? Memory, CPU time and wakeups of the product with 20 Services, in
 * each mode that this machine can run, compared with an idle Node process and, if KUBE_PROXY names
 * its binary, with kube-proxy. OLD names the folder of a built checkout of another version,
 * of which mode nftables is measured.
 * KUBE_APISERVER and ETCD name a real API server; without them a fake one serves. All are measured
 * at the same time, each on a node of its own.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildProduct, withCluster } from './lib/api-rig.ts';
import type { Extent } from './lib/extent.ts';
import { KubeProxy } from './lib/kube-proxy.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { NodesOfApi } from './lib/nodes-of-api.ts';
import { threadMs, threadsOf } from './lib/processor-time.ts';
import { Product } from './lib/product.ts';
import { RealApi } from './lib/real-api.ts';
import { number, table } from './lib/stats.ts';

const size = { services: 20, endpoints: 3 };
/** From the start of a process until it is measured. */
const restMs = 30_000;
const shortMs = 60_000;
const wholeMs = 600_000;

const productModes = ['nftables', 'iptables', 'ipvs', 'userspace'] as const;
const kubeProxyModes = ['nftables', 'iptables'] as const;

interface Idle {
  readonly residentMB: number;
  readonly anonymousMB: number;
  readonly threads: number;
  /** Of one core. */
  readonly cpuPercent: number;
  readonly switchesPerSecond: number;
}

type Row = readonly [what: string, idle: Idle | string];

/** A pod has none of the machine's authorities. OpenSSL keeps 1 MB for 144 of them, Node as much. */
const authorities = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR'] as const;

export async function idle(extent: Extent): Promise<string> {
  for (const name of authorities) delete process.env[name];
  buildProduct();
  const forMs = extent === 'whole' ? wholeMs : shortMs;
  const { KUBE_PROXY, OLD } = process.env;
  const rows = await withApi(async (add) => {
    const running: Running[] = [idleNode()];
    // One after the other: the first programming of one is not the load of another.
    for (const mode of productModes) running.push(await product(add, mode));
    if (OLD !== undefined) running.push(olderProduct(OLD, add));
    for (const mode of KUBE_PROXY === undefined ? [] : kubeProxyModes) {
      running.push(kubeProxy(KUBE_PROXY!, add, mode));
    }
    try {
      await sleep(restMs);
      return await measured(running, forMs);
    } finally {
      for (const { stop } of running) await stop();
    }
  });
  const head = ['', 'resident', 'anonymous', 'threads', '% of a core', 'switches/s'];
  const server = process.env.KUBE_APISERVER === undefined ? 'fake' : 'real';
  const title = `${size.services} Services and a ${server} API server, ${forMs / 1000} s of silence; MB`;
  return [title, table(head, rows.map(cells))].join('\n\n');
}

function cells([what, idle]: Row): string[] {
  if (typeof idle === 'string') return [what, idle, '', '', '', ''];
  const { residentMB, anonymousMB, threads } = idle;
  const megabytes = [residentMB, anonymousMB].map((mb) => mb.toFixed(1));
  const rates = [idle.cpuPercent.toFixed(3), idle.switchesPerSecond.toFixed(1)];
  return [what, ...megabytes, number(threads), ...rates];
}

/** A node of the API server, and the path of its kubeconfig. */
type AddNode = () => { readonly namespace: Namespace; readonly kubeconfig: string };

interface Running {
  readonly what: string;
  /** Undefined: does not run here. */
  readonly pid: number | undefined;
  readonly stop: () => Promise<unknown> | unknown;
}

/** Runs `work` with a cluster of `size` in the API server. */
async function withApi<T>(work: (add: AddNode) => Promise<T>): Promise<T> {
  const withNodes = async (namespace: Namespace, kubeconfig: string): Promise<T> => {
    const nodes = new NodesOfApi(namespace, kubeconfig);
    try {
      return await work(() => ({ namespace: nodes.add(), kubeconfig: nodes.kubeconfig }));
    } finally {
      nodes.close();
    }
  };
  if (process.env.KUBE_APISERVER === undefined) {
    return withCluster(size, (api, namespace) => withNodes(namespace, api.kubeconfig));
  }
  return inNamespace('idle', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const api = await RealApi.start(namespace);
    try {
      await api.ask({ do: 'load', ...size });
      return await withNodes(namespace, api.kubeconfig);
    } finally {
      await api.close();
    }
  });
}

function idleNode(): Running {
  const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: 'pipe' });
  return { what: 'Node alone', pid: child.pid, stop: () => child.kill() };
}

async function product(add: AddNode, mode: string): Promise<Running> {
  const what = `Fairlead, ${mode}`;
  const missing = { what, pid: undefined, stop: () => {} };
  // Another mode would run in its place.
  if (mode === 'ipvs' && !existsSync('/proc/net/ip_vs')) return missing;
  const { kubeconfig, namespace } = add();
  const flags = [`--proxy-mode=${mode}`];
  const running = new Product(namespace, kubeconfig, flags, { isProbed: false });
  try {
    await running.programmedMs;
  } catch {
    return missing;
  }
  return { what, pid: running.pid, stop: () => running.stop() };
}

/** When it has programmed is not known: its log may have other messages. */
function olderProduct(checkout: string, add: AddNode): Running {
  const { kubeconfig, namespace } = add();
  const options = { isProbed: false, checkout };
  const running = new Product(namespace, kubeconfig, ['--proxy-mode=nftables'], options);
  running.programmedMs.catch(() => {});
  return { what: 'before, nftables', pid: running.pid, stop: () => running.stop() };
}

function kubeProxy(binary: string, add: AddNode, mode: 'nftables' | 'iptables'): Running {
  const { kubeconfig, namespace } = add();
  const running = new KubeProxy(binary, namespace, kubeconfig, mode);
  return { what: `kube-proxy, ${mode}`, pid: running.pid, stop: () => running.stop() };
}

async function measured(running: readonly Running[], forMs: number): Promise<readonly Row[]> {
  const begun = running.map(({ pid }) => (pid === undefined ? undefined : begin(pid)));
  await sleep(forMs);
  return running.map(({ what }, i) => [what, begun[i]?.() ?? 'does not run here']);
}

/** Returns a function that returns what the process has used since. */
function begin(pid: number): () => Idle {
  const before = activity(pid);
  const fromMs = performance.now();
  return () => {
    const after = activity(pid);
    const seconds = (performance.now() - fromMs) / 1000;
    const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
    const megabytes = (name: string): number =>
      Number(new RegExp(`^${name}: *([0-9]+) kB$`, 'm').exec(rollup)![1]) / 1024;
    return {
      residentMB: megabytes('Rss'),
      anonymousMB: megabytes('Anonymous'),
      threads: after.threads,
      cpuPercent: (100 * (after.cpuSeconds - before.cpuSeconds)) / seconds,
      switchesPerSecond: (after.switches - before.switches) / seconds,
    };
  };
}

/** Sums of all threads since they began. */
function activity(pid: number) {
  const tasks = threadsOf(pid);
  let cpuSeconds = 0;
  let switches = 0;
  for (const task of tasks) {
    cpuSeconds += threadMs(task) / 1000;
    const status = readFileSync(`${task}/status`, 'utf8');
    for (const [, count] of status.matchAll(/ctxt_switches:\s+([0-9]+)/g))
      switches += Number(count);
  }
  return { cpuSeconds, switches, threads: tasks.length };
}
