/**
 * What does one node cost a real API server, and what does kube-proxy? It counts the bytes that it
 * reads for its start and for changes, and the server's processor time for a start. What one watch
 * costs it for changes is less than what writing them differs by: api-server.ts has many watches.
 * KUBE_APISERVER, ETCD and KUBE_PROXY name the programs.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { buildProduct, contentTypes } from './lib/api-rig.ts';
import { KubeProxy } from './lib/kube-proxy.ts';
import { inNamespace, type Namespace } from './lib/namespace.ts';
import { Product } from './lib/product.ts';
import { RealApi } from './lib/real-api.ts';
import { number, ratio, table } from './lib/stats.ts';

const services = 2000;
const endpoints = 30;
const changes = 1000;
const rounds = 3;
/** The server continues to work for a while. */
const settleMs = 3000;
const megabyte = 1e6;

interface Proxy {
  readonly pid: number;
  /** Resolves when the kernel has the rules. */
  readonly programmed: Promise<unknown>;
  stop(): Promise<void>;
}

/** Undefined: no proxy. */
type Start = ((api: RealApi, namespace: Namespace) => Proxy) | undefined;

/** Bytes over TCP, and milliseconds of the server's processor time. */
interface Cost {
  readonly startBytes: number;
  readonly startCpu: number;
  readonly changeBytes: number;
}

function fairlead(...flags: string[]): Start {
  return (api, namespace) => {
    const product = new Product(namespace, api.kubeconfig, flags, { isProbed: false });
    return { pid: product.pid, programmed: product.programmedMs, stop: () => product.stop() };
  };
}

export async function apiClient(): Promise<string> {
  const binary = process.env.KUBE_PROXY;
  if (binary === undefined) return 'api-client: KUBE_PROXY must name a program';
  buildProduct();
  const starts: readonly (readonly [name: string, start: Start])[] = [
    ['nobody', undefined],
    [
      'kube-proxy',
      (api, namespace) => {
        const type = contentTypes.protobuf;
        const one = new KubeProxy(binary, namespace, api.kubeconfig, 'nftables', type);
        return { pid: one.pid, programmed: one.programmed(services), stop: () => one.stop() };
      },
    ],
    ['Fairlead', fairlead()],
  ];
  const costs = await inNamespace('real-api', async (namespace) => {
    namespace.run('ip', ['link', 'set', 'lo', 'up']);
    const api = await RealApi.start(namespace);
    try {
      await api.ask({ do: 'load', services, endpoints });
      const found = new Map<string, Cost>();
      for (let round = 1; round <= rounds; round += 1) {
        for (const [name, start] of starts) {
          const cost = await measure(api, namespace, start);
          found.set(name, least(found.get(name) ?? cost, cost));
        }
      }
      return found;
    } finally {
      await api.close();
    }
  });
  const idle = costs.get('nobody')!;
  const peer = costs.get('kube-proxy')!;
  const rows = [...costs]
    .slice(1)
    .map(([name, cost]) => [
      name,
      number(cost.startBytes / megabyte),
      ratio(cost.startBytes, peer.startBytes),
      number(cost.startCpu - idle.startCpu),
      ratio(cost.startCpu - idle.startCpu, peer.startCpu - idle.startCpu),
      number(cost.changeBytes / megabyte),
      ratio(cost.changeBytes, peer.changeBytes),
    ]);
  const size = `${number(services)} × ${endpoints}`;
  const what = `A real API server with ${size}: a start of one proxy, and ${number(changes)} changes`;
  const head = ['', 'start MB', 'ratio', 'server ms', 'ratio', 'changes MB', 'ratio'];
  return `${what}; least of ${rounds}\n\n${table(head, rows)}`;
}

function least(a: Cost, b: Cost): Cost {
  const { min } = Math;
  return {
    startBytes: min(a.startBytes, b.startBytes),
    startCpu: min(a.startCpu, b.startCpu),
    changeBytes: min(a.changeBytes, b.changeBytes),
  };
}

async function measure(api: RealApi, namespace: Namespace, start: Start): Promise<Cost> {
  namespace.run('nft', ['flush', 'ruleset']);
  const cpu = (): number => api.cpuSeconds * 1000;
  const [startsAt, fromMs] = [cpu(), performance.now()];
  const proxy = start?.(api, namespace);
  try {
    await proxy?.programmed;
    await sleep(Math.max(settleMs, fromMs + 2 * settleMs - performance.now()));
    const startBytes = receivedBytes(namespace, proxy);
    const startCpu = cpu() - startsAt;
    await api.ask({ do: 'change', count: changes });
    await sleep(settleMs);
    return {
      startBytes,
      startCpu,
      changeBytes: receivedBytes(namespace, proxy) - startBytes,
    };
  } finally {
    await proxy?.stop();
  }
}

/** By connections of the proxy to the server that are open. */
function receivedBytes(namespace: Namespace, proxy: Proxy | undefined): number {
  if (proxy === undefined) return 0;
  const lines = namespace.run('ss', ['-tinpHO', 'dport', '=', ':6443']).split('\n');
  return lines
    .filter((line) => line.includes(`pid=${proxy.pid},`))
    .reduce((sum, line) => sum + Number(/ bytes_received:([0-9]+)/.exec(line)?.[1] ?? 0), 0);
}
