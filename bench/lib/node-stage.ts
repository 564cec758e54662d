/**
 * A node between a client and endpoints behind two links, which can lose packets and deliver them
 * late when they are asked to. The program runs in a process of its own, with the sources as they
 * are.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import { Caller, type Calling } from '../../test/lab/caller.ts';
import { monotonicMs } from '../../test/lab/load.ts';
import { buildLink, buildLoad } from '../../test/lab/native/build.ts';
import { Namespace } from './namespace.ts';

const client = '11.255.0.2';
/** Addresses behind the first link, and behind the second. */
export const near = Array.from({ length: 9 }, (_, i) => `11.254.0.${i + 1}`);
export const far = Array.from({ length: 2 }, (_, i) => `11.253.0.${i + 1}`);
export type Side = 'near' | 'far';

/** For a shell: open files as many as are allowed. */
export const manyFiles = 'ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"';

const ejected: LoggedMessage = 'Endpoint does not answer; it gets no new connections';

export interface StagedService {
  readonly name: string;
  readonly clusterIP: string;
  /** The port at the endpoints. */
  readonly target: number;
  readonly addresses: readonly string[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/** An endpoint was left out: `11.254.0.1:8080`, by `monotonicMs`. */
interface Ejection {
  readonly endpoint: string;
  readonly atMs: number;
}

export class NodeStage {
  readonly node: Namespace;
  readonly #client: Namespace;
  readonly sides: Readonly<Record<Side, Namespace>>;
  readonly #links = new Map<Side, ChildProcess>();
  readonly #folder = mkdtempSync(join(tmpdir(), 'fairlead-stage-'));
  readonly #servers = new Map<Side, ChildProcess[]>();
  #proxy: ChildProcess | undefined;
  /** A process in the namespace of the client. */
  #inside: ChildProcess | undefined;
  /** In order, since the proxy was started. */
  ejections: Ejection[] = [];

  /** `name`: of one of several. */
  constructor(name = 'stage') {
    const [node, client, near, far] = ['node', 'client', 'near', 'far'].map(
      (place) => new Namespace(`${name}-${place}`),
    ) as [Namespace, Namespace, Namespace, Namespace];
    this.node = node;
    this.#client = client;
    this.sides = { near, far };
  }

  /**
   * The servers of each side listen at these ports of all of its addresses. `links`: only processes
   * (`test/lab/native/link.cc`) can be disturbed.
   */
  async open(links: 'process' | 'veth', ...ports: readonly number[]): Promise<void> {
    this.node.run('ip', ['link', 'set', 'lo', 'up']);
    this.node.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1']);
    this.#veth(this.#client, 'client');
    for (const side of ['near', 'far'] as const) {
      if (links === 'process') await this.#link(side);
      else this.#veth(this.sides[side], side);
    }
    this.#plug(this.#client, 'client', '11.255.0.254', [client]);
    this.#plug(this.sides.near, 'near', '11.254.0.254', near);
    this.#plug(this.sides.far, 'far', '11.253.0.254', far);
    for (const side of ['near', 'far'] as const) await this.serve(side, ports);
    this.#inside = spawn('ip', ['netns', 'exec', this.#client.name, 'cat']);
  }

  /** A process in the namespace of the client. */
  get clientPid(): number {
    return this.#inside!.pid!;
  }

  /** The program's process. */
  get proxyPid(): number {
    return this.#proxy!.pid!;
  }

  #plug(peer: Namespace, name: string, gateway: string, addresses: readonly string[]): void {
    const own = [`addr add ${gateway}/24 dev to-${name}`, `link set to-${name} up`];
    this.node.run('ip', ['-batch', '-'], own.join('\n'));
    const inside = [
      'link set lo up',
      ...addresses.map((address) => `addr add ${address}/24 dev eth0`),
      'link set eth0 up',
      `route add default via ${gateway}`,
    ];
    peer.run('ip', ['-batch', '-'], inside.join('\n'));
  }

  #veth(peer: Namespace, name: string): void {
    const link = `link add to-${name} type veth peer name eth0 netns ${peer.name}`;
    this.node.run('ip', ['-batch', '-'], link);
  }

  async #link(side: Side): Promise<void> {
    const argv = [this.node.path, `to-${side}`, this.sides[side].path, 'eth0'];
    const link = spawn(buildLink(), argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    await once(link.stdout!, 'data');
    this.#links.set(side, link);
  }

  /** Packets of a hundred that are lost each way, and how late those of the endpoints are. */
  disturb(side: Side, { loss, delayMs }: { readonly loss: number; readonly delayMs: number }) {
    this.#links.get(side)!.stdin!.write(`${loss} ${delayMs}\n`);
  }

  async serve(side: Side, ports: readonly number[]): Promise<void> {
    const servers = ports.map((port) => {
      const serve = `${manyFiles}; exec ${buildLoad()} serve ${port}`;
      const argv = ['netns', 'exec', this.sides[side].name, 'sh', '-c', serve];
      return spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
    });
    this.#servers.set(side, servers);
    await Promise.all(servers.map(({ stdout }) => once(stdout!, 'data')));
  }

  async stopServing(side: Side): Promise<void> {
    const servers = this.#servers.get(side) ?? [];
    this.#servers.delete(side);
    const ended = servers.map((server) => once(server, 'exit'));
    for (const server of servers) server.kill('SIGKILL');
    await Promise.all(ended);
  }

  /** These endpoints refuse connections from now on, and no others. */
  refuse(side: Side, addresses: readonly string[]): void {
    const rule = addresses.length === 0 ? '' : `ip daddr { ${addresses.join(', ')} }`;
    const reset = rule && `${rule} tcp flags syn reject with tcp reset;`;
    const table = `table ip refuse
      delete table ip refuse
      table ip refuse { chain input { type filter hook input priority 0; ${reset} }; }`;
    this.sides[side].run('nft', ['-f', '-'], table);
  }

  /** The cluster from now on. */
  say(...services: readonly StagedService[]): void {
    const items = services.flatMap(objectsOf);
    const path = join(this.#folder, 'cluster.json');
    writeFileSync(`${path}.new`, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    renameSync(`${path}.new`, path);
  }

  start(...more: readonly string[]): void {
    this.ejections = [];
    const main = resolve(import.meta.dirname, '..', '..', 'src', 'main.ts');
    const flags = [
      ...[`--manifests=${this.#folder}`, '--hostname-override=node', '--cluster-cidr=11.0.0.0/8'],
      ...['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0s'],
      ...['--conntrack-tcp-timeout-close-wait=0s', ...more],
    ];
    const argv = ['netns', 'exec', this.node.name, process.execPath, main, ...flags];
    this.#proxy = spawn('ip', argv, { stdio: ['ignore', 'ignore', 'pipe'] });
    createInterface({ input: this.#proxy.stderr! }).on('line', (line) => {
      const { endpoint, msg } = JSON.parse(line) as { endpoint?: string; msg: string };
      if (msg === ejected) this.ejections.push({ endpoint: endpoint!, atMs: monotonicMs() });
    });
  }

  /** A client that calls from now on. Resolves when all of these endpoints have answered it. */
  async caller(to: Calling, addresses: readonly string[]): Promise<Caller> {
    const caller = new Caller(this.clientPid, { ...to, makesUp: true });
    while (!addresses.every((one) => caller.calls.slice(-300).some(({ by }) => by === one))) {
      await sleep(100);
    }
    return caller;
  }

  async stop(): Promise<void> {
    const proxy = this.#proxy!;
    this.#proxy = undefined;
    const ended = once(proxy, 'exit');
    proxy.kill('SIGTERM');
    await ended;
    // A client's port that comes again would lead to the endpoint that its last connection had.
    this.node.run('conntrack', ['-F'], '', 'ignore');
  }

  async close(): Promise<void> {
    if (this.#proxy !== undefined) await this.stop();
    this.#inside?.kill();
    for (const side of [...this.#servers.keys()]) await this.stopServing(side);
    for (const link of this.#links.values()) link.stdin!.end();
    const { far: second, near: first } = this.sides;
    for (const one of [this.node, this.#client, first, second]) one.close();
    rmSync(this.#folder, { recursive: true });
  }
}

function objectsOf({ addresses, annotations = {}, clusterIP, name, target }: StagedService) {
  const endpoints = addresses.map((address) => {
    return { addresses: [address], conditions: { ready: true } };
  });
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'default', name, annotations },
    spec: { clusterIP, clusterIPs: [clusterIP], ports: [{ name: 'http', port: 80 }] },
  };
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      ...{ namespace: 'default', name: `${name}-1` },
      labels: { 'kubernetes.io/service-name': name },
    },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: target, protocol: 'TCP' }],
    endpoints,
  };
  return [service, slice];
}
