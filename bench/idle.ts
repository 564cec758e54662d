/**
 * What does an idle node cost? Memory, CPU time and wakeups of the product with 20 Services, in
 * each mode that this machine can run, compared with an idle Node process and, if KUBE_PROXY names
 * its binary, with kube-proxy. KUBE_APISERVER and ETCD name a real API server; without them a fake
 * one serves.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildProduct, withCluster } from './lib/api-rig.ts';
import type { Extent } from './lib/extent.ts';
import { KubeProxy } from './lib/kube-proxy.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
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
  /** The process's part of pages that it shares counts. */
  readonly proportionalMB: number;
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
  const rows: Row[] = [['Node alone', await idleNode(forMs)]];
  await withApi(async (kubeconfig, namespace) => {
    for (const mode of productModes) {
      rows.push([`Fairlead, ${mode}`, await product(kubeconfig, namespace, mode, forMs)]);
    }
    const binary = process.env.KUBE_PROXY;
    for (const mode of binary === undefined ? [] : kubeProxyModes) {
      const measured = await kubeProxy(binary!, kubeconfig, namespace, mode, forMs);
      rows.push([`kube-proxy, ${mode}`, measured]);
    }
  });
  const head = [
    '',
    'resident',
    'proportional',
    'anonymous',
    'threads',
    '% of a core',
    'switches/s',
  ];
  const server = process.env.KUBE_APISERVER === undefined ? 'fake' : 'real';
  const title = `${size.services} Services and a ${server} API server, ${forMs / 1000} s of silence; MB`;
  return [title, table(head, rows.map(cells))].join('\n\n');
}

function cells([what, idle]: Row): string[] {
  if (typeof idle === 'string') return [what, idle, '', '', '', '', ''];
  const { residentMB, proportionalMB, anonymousMB, threads } = idle;
  const megabytes = [residentMB, proportionalMB, anonymousMB].map((mb) => mb.toFixed(1));
  const rates = [idle.cpuPercent.toFixed(3), idle.switchesPerSecond.toFixed(1)];
  return [what, ...megabytes, number(threads), ...rates];
}

/** Runs `work` with a cluster of `size` in the API server. */
async function withApi(
  work: (kubeconfig: string, namespace: Namespace) => Promise<void>,
): Promise<void> {
  if (process.env.KUBE_APISERVER === undefined) {
    return withCluster(size, (api, namespace) => work(api.kubeconfig, namespace));
  }
  return inNamespace('idle', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const api = await RealApi.start(namespace);
    try {
      await api.ask({ do: 'load', ...size });
      await work(api.kubeconfig, namespace);
    } finally {
      await api.close();
    }
  });
}

async function idleNode(forMs: number): Promise<Idle> {
  const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: 'pipe' });
  try {
    await sleep(2000);
    return await measure(child.pid!, forMs);
  } finally {
    child.kill();
  }
}

/** Answers why not if this machine cannot run the mode. */
async function product(
  kubeconfig: string,
  namespace: Namespace,
  mode: string,
  forMs: number,
): Promise<Idle | string> {
  // Another mode would run in its place.
  if (mode === 'ipvs' && !existsSync('/proc/net/ip_vs')) return 'does not run here';
  const running = new Product(namespace, kubeconfig, [`--proxy-mode=${mode}`], { isProbed: false });
  try {
    await running.programmedMs;
  } catch {
    return 'does not run here';
  }
  try {
    await sleep(restMs);
    return await measure(running.pid, forMs);
  } finally {
    await running.stop();
  }
}

async function kubeProxy(
  binary: string,
  kubeconfig: string,
  namespace: Namespace,
  mode: 'nftables' | 'iptables',
  forMs: number,
): Promise<Idle> {
  const running = new KubeProxy(binary, namespace, kubeconfig, mode);
  try {
    await sleep(restMs);
    return await measure(running.pid, forMs);
  } finally {
    await running.stop();
  }
}

async function measure(pid: number, forMs: number): Promise<Idle> {
  const before = activity(pid);
  const fromMs = performance.now();
  await sleep(forMs);
  const after = activity(pid);
  const seconds = (performance.now() - fromMs) / 1000;
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const megabytes = (name: string): number =>
    Number(new RegExp(`^${name}: *([0-9]+) kB$`, 'm').exec(rollup)![1]) / 1024;
  return {
    residentMB: megabytes('Rss'),
    proportionalMB: megabytes('Pss'),
    anonymousMB: megabytes('Anonymous'),
    threads: after.threads,
    cpuPercent: (100 * (after.cpuSeconds - before.cpuSeconds)) / seconds,
    switchesPerSecond: (after.switches - before.switches) / seconds,
  };
}

/** Sums of all threads since they began. */
function activity(pid: number) {
  const tasks = readdirSync(`/proc/${pid}/task`).map((task) => `/proc/${pid}/task/${task}`);
  let cpuSeconds = 0;
  let switches = 0;
  for (const task of tasks) {
    cpuSeconds += Number(readFileSync(`${task}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
    const status = readFileSync(`${task}/status`, 'utf8');
    for (const [, count] of status.matchAll(/ctxt_switches:\s+([0-9]+)/g))
      switches += Number(count);
  }
  return { cpuSeconds, switches, threads: tasks.length };
}
