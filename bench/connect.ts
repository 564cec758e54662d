/**
 * What does a new connection to a ClusterIP cost, and does that grow with the number of Services?
 * Connections go from a client's namespace through the node's to the endpoint's: directly, through
 * Fairlead, and through the same Services in kube-proxy's nftables layout, loaded with `nft -f`.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import type { Change } from '../src/state/change.ts';
import { objects, type Size, sizeName, slice } from './lib/cluster.ts';
import { kubeProxyLayout } from './lib/kube-proxy-layout.ts';
import { Namespace } from './lib/namespace.ts';
import { withRig } from './lib/rig.ts';
import { number, table } from './lib/stats.ts';

const root = resolve(import.meta.dirname, '..');
export const connectLoop = join(root, 'build', 'bench', 'connect_loop');
const sizes: readonly Size[] = [10, 1000, 10_000].map((services) => ({ services, endpoints: 10 }));
const connections = 4000;
const rounds = 3;
export const port = '8080';
/** Service 0, whose endpoints are the addresses of the server's namespace. */
export const target = { address: '10.96.0.1', port: '80' };
export const endpoint = '11.0.0.1';

export interface Cost {
  readonly perSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
}

/** Compiles the client and the server of a Stage. */
export function buildPrograms(): void {
  execFileSync('sh', [join(root, 'scripts', 'build-bench')]);
}

export async function connect(): Promise<string> {
  buildPrograms();
  const rows: string[][] = [];
  for (const size of sizes) rows.push(...(await measure(size)));
  const head = ['cluster', 'path', 'connections/s', 'p50 µs', 'p99 µs'];
  const what = `${connections} connections, one after the other; best of ${rounds}`;
  return `Connecting to a ClusterIP; ${what}\n\n${table(head, rows)}`;
}

/** Client, node and server, connected by veth pairs; the node forwards. */
export class Stage {
  readonly node = new Namespace('node');
  readonly client = new Namespace('client');
  readonly #server = new Namespace('server');
  readonly #serving;

  /** `serve`: a server that says so when it listens. */
  constructor(serve: readonly string[] = [connectLoop, 'serve', port]) {
    this.#plug(this.client, '10.1.0.1', ['10.1.0.2/24']);
    const endpoints = Array.from({ length: 10 }, (_, i) => `11.0.0.${i + 1}/24`);
    this.#plug(this.#server, '11.0.0.254', endpoints);
    this.node.run('sh', ['-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward']);
    const argv = ['netns', 'exec', this.#server.name, ...serve];
    this.#serving = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  }

  #plug(peer: Namespace, gateway: string, addresses: readonly string[]): void {
    const device = `to-${gateway.split('.')[0]}`;
    const commands = [
      `link add ${device} type veth peer name eth0 netns ${peer.name}`,
      `addr add ${gateway}/24 dev ${device}`,
      `link set ${device} up`,
    ];
    this.node.run('ip', ['-batch', '-'], commands.join('\n'));
    const inside = [
      'link set lo up',
      ...addresses.map((address) => `addr add ${address} dev eth0`),
      'link set eth0 up',
      `route add default via ${gateway}`,
    ];
    peer.run('ip', ['-batch', '-'], inside.join('\n'));
  }

  async ready(): Promise<void> {
    await once(this.#serving.stdout!, 'data');
  }

  connect(to: { address: string; port: string }): Cost {
    const argv = ['connect', to.address, to.port, String(connections)];
    const costs = Array.from(
      { length: rounds },
      () => JSON.parse(this.client.run(connectLoop, argv)) as Cost,
    );
    return costs.reduce((a, b) => (a.p50Us < b.p50Us ? a : b));
  }

  close(): void {
    this.#serving.kill();
    for (const namespace of [this.client, this.#server, this.node]) namespace.close();
  }
}

async function measure(size: Size): Promise<string[][]> {
  const stage = new Stage();
  try {
    await stage.ready();
    const direct = stage.connect({ address: endpoint, port });
    const ours = await withRig(stage.node, async (rig) => {
      await rig.load(changes(size));
      return stage.connect(target);
    });
    stage.node.run('nft', ['flush', 'ruleset']);
    stage.node.run('nft', ['-f', '-'], kubeProxyLayout(size));
    const theirs = stage.connect(target);
    const row = (path: string, { perSecond, p50Us, p99Us }: Cost): string[] => [
      sizeName(size),
      path,
      number(perSecond),
      number(p50Us),
      number(p99Us),
    ];
    return [row('direct', direct), row('Fairlead', ours), row('kube-proxy layout', theirs)];
  } finally {
    stage.close();
  }
}

/** The cluster, with the server's addresses as endpoints of Service 0. */
export function changes(size: Size): Change[] {
  return [...objects(size), { kind: 'slice', slice: slice(0, size.endpoints) }];
}
