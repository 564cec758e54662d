/**
 * What becomes of connections when a pod vanishes without a word, one of ten: without failure
 * detection for as long as its EndpointSlice names it, and with it. And whether an endpoint is left
 * out wrongly while packets are lost, endpoints are slow, restart, come and go. `--hour` does the
 * latter for an hour.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Caller } from '../test/lab/caller.ts';
import { monotonicMs } from '../test/lab/load.ts';
import { buildLoad } from '../test/lab/native/build.ts';
import type { Extent } from './lib/extent.ts';
import { Namespace } from './lib/namespace.ts';
import { table } from './lib/stats.ts';

const perSecond = 100;
const timeoutMs = 1000;
/** As long as a node controller takes to notice that a node has gone. */
const lostMs = 40_000;
const chaosMs = { usual: 60_000, whole: 3_600_000 } as const;
const clusterIP = '10.96.0.1';
const client = '11.255.0.2';
/** Nine endpoints behind one link, the tenth behind another. */
const near = Array.from({ length: 9 }, (_, i) => `11.254.0.${i + 1}`);
const far = '11.253.0.1';
const ejected = 'Endpoint does not answer; it gets no new connections';

class Stage {
  readonly node = new Namespace('failures-node');
  readonly client = new Namespace('failures-client');
  readonly near = new Namespace('failures-near');
  readonly far = new Namespace('failures-far');
  readonly #folder = mkdtempSync(join(tmpdir(), 'fairlead-failures-'));
  readonly #servers = new Map<Namespace, ChildProcess>();
  #proxy: ChildProcess | undefined;
  /** A process in the namespace of the client. */
  #inside: ChildProcess | undefined;
  /** Endpoints that were left out, in order. */
  ejections: string[] = [];

  async open(): Promise<void> {
    this.node.run('ip', ['link', 'set', 'lo', 'up']);
    this.node.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1']);
    this.#plug(this.client, 'client', '11.255.0.254', [client]);
    this.#plug(this.near, 'near', '11.254.0.254', near);
    this.#plug(this.far, 'far', '11.253.0.254', [far]);
    await this.serve(this.near);
    await this.serve(this.far);
    this.#inside = spawn('ip', ['netns', 'exec', this.client.name, 'cat']);
  }

  #plug(peer: Namespace, name: string, gateway: string, addresses: readonly string[]): void {
    const link = `link add to-${name} type veth peer name eth0 netns ${peer.name}`;
    const own = [`addr add ${gateway}/24 dev to-${name}`, `link set to-${name} up`];
    this.node.run('ip', ['-batch', '-'], [link, ...own].join('\n'));
    const inside = [
      'link set lo up',
      ...addresses.map((address) => `addr add ${address}/24 dev eth0`),
      'link set eth0 up',
      `route add default via ${gateway}`,
    ];
    peer.run('ip', ['-batch', '-'], inside.join('\n'));
  }

  async serve(where: Namespace): Promise<void> {
    const argv = ['netns', 'exec', where.name, buildLoad(), 'serve', '8080'];
    const server = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#servers.set(where, server);
    await once(server.stdout!, 'data');
  }

  async stopServing(where: Namespace): Promise<void> {
    const server = this.#servers.get(where)!;
    this.#servers.delete(where);
    const ended = once(server, 'exit');
    server.kill('SIGKILL');
    await ended;
  }

  /** The Service from now on. */
  say(addresses: readonly string[]): void {
    const endpoints = addresses.map((address) => {
      return { addresses: [address], conditions: { ready: true } };
    });
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'default', name: 'web' },
      spec: { clusterIP, clusterIPs: [clusterIP], ports: [{ name: 'http', port: 80 }] },
    };
    const slice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        ...{ namespace: 'default', name: 'web-1' },
        labels: { 'kubernetes.io/service-name': 'web' },
      },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints,
    };
    const items = [service, slice];
    const path = join(this.#folder, 'cluster.json');
    writeFileSync(`${path}.new`, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    renameSync(`${path}.new`, path);
  }

  /** Starts the proxy, and resolves when all endpoints answer. */
  async start(detection: 'off' | 'eject'): Promise<Caller> {
    this.ejections = [];
    const main = resolve(import.meta.dirname, '..', 'src', 'main.ts');
    const flags = [
      ...[`--manifests=${this.#folder}`, '--hostname-override=node', '--cluster-cidr=11.0.0.0/8'],
      ...['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0s'],
      ...['--conntrack-tcp-timeout-close-wait=0s', `--failure-detection=${detection}`],
    ];
    const argv = ['netns', 'exec', this.node.name, process.execPath, main, ...flags];
    this.#proxy = spawn('ip', argv, { stdio: ['ignore', 'ignore', 'pipe'] });
    createInterface({ input: this.#proxy.stderr! }).on('line', (line) => {
      const { endpoint, msg } = JSON.parse(line) as { endpoint?: string; msg: string };
      if (msg === ejected) this.ejections.push(endpoint!);
    });
    const to = { address: clusterIP, port: 80, perSecond, timeoutMs };
    const caller = new Caller(this.#inside!.pid!, to);
    const all = [...near, far];
    while (!all.every((one) => caller.calls.slice(-300).some(({ by }) => by === one))) {
      await sleep(100);
    }
    return caller;
  }

  async stop(caller: Caller): Promise<void> {
    await caller.end();
    const proxy = this.#proxy!;
    const ended = once(proxy, 'exit');
    proxy.kill('SIGTERM');
    await ended;
    // A client's port that comes again would lead to the endpoint that its last connection had.
    this.node.run('conntrack', ['-F'], '', 'ignore');
  }

  async close(): Promise<void> {
    this.#inside?.kill();
    for (const where of [...this.#servers.keys()]) await this.stopServing(where);
    for (const one of [this.node, this.client, this.near, this.far]) one.close();
    rmSync(this.#folder, { recursive: true });
  }
}

async function vanish(stage: Stage, detection: 'off' | 'eject'): Promise<string[]> {
  stage.say([...near, far]);
  const caller = await stage.start(detection);
  const goneMs = monotonicMs();
  stage.far.run('ip', ['link', 'set', 'eth0', 'down']);
  await sleep(lostMs + timeoutMs);
  const failed = (fromMs: number): string => {
    const calls = caller.since(fromMs).filter(({ startedMs }) => startedMs < goneMs + lostMs);
    const lost = calls.filter(({ by }) => by === undefined).length;
    return `${((100 * lost) / calls.length).toFixed(2)} %`;
  };
  const all = caller.since(goneMs).filter(({ by }) => by === undefined);
  const lastMs = Math.max(0, ...all.map(({ startedMs }) => startedMs - goneMs));
  const row = [detection, failed(goneMs), failed(goneMs + 1000), `${(lastMs / 1000).toFixed(1)} s`];
  await stage.stop(caller);
  stage.far.run('ip', ['link', 'set', 'eth0', 'up']);
  stage.far.run('ip', ['route', 'replace', 'default', 'via', '11.253.0.254']);
  return row;
}

/** Packets are lost at random, and those of one link are late. Returns what this kernel does. */
function disturb(stage: Stage): string {
  try {
    stage.near.run(
      'tc',
      ['qdisc', 'add', 'dev', 'eth0', 'root', 'netem', 'loss', '5%'],
      '',
      'ignore',
    );
    const late = ['qdisc', 'add', 'dev', 'eth0', 'root', 'netem', 'delay', '900ms', 'loss', '5%'];
    stage.far.run('tc', late);
    return 'netem: 5 % of packets of endpoints lost, one of ten answers after 900 ms';
  } catch {
    const rules = `table ip lossy { chain input {
      type filter hook input priority -50; numgen random mod 100 < 5 drop; }
    }`;
    for (const where of [stage.near, stage.far]) where.run('nft', ['-f', '-'], rules);
    return 'no netem in this kernel: 5 % of packets to endpoints lost, none is late';
  }
}

async function chaos(stage: Stage, durationMs: number): Promise<string> {
  const all = [...near, far];
  stage.say(all);
  const caller = await stage.start('eject');
  const how = disturb(stage);
  const beganMs = performance.now();
  let restarts = 0;
  let changes = 0;
  while (performance.now() - beganMs < durationMs) {
    await sleep(4000);
    // Some come and go; the one that is late is always among them.
    changes += 1;
    stage.say(all.filter((one, i) => one === far || i % 3 !== changes % 3));
    await sleep(4000);
    restarts += 1;
    await stage.stopServing(stage.near);
    await sleep(300);
    await stage.serve(stage.near);
  }
  const seconds = Math.round((performance.now() - beganMs) / 1000);
  const failed = caller.calls.filter(({ by }) => by === undefined).length;
  await stage.stop(caller);
  const { length } = stage.ejections;
  return [
    `Chaos of ${seconds} s (${how}), ${changes} changes of endpoints, ${restarts} restarts of nine of ten:`,
    `${caller.calls.length} connections, ${failed} failed, ${length} endpoints left out wrongly.`,
  ].join('\n');
}

export async function failures(extent: Extent): Promise<string> {
  const stage = new Stage();
  try {
    await stage.open();
    const rows = [await vanish(stage, 'off'), await vanish(stage, 'eject')];
    const head = ['detection', 'failed', 'failed from the second second on', 'last failure after'];
    return [
      `One of ten endpoints vanishes for ${lostMs / 1000} s; ${perSecond} connections a second, each given up after 1 s`,
      '',
      table(head, rows),
      '',
      await chaos(stage, chaosMs[extent]),
    ].join('\n');
  } finally {
    await stage.close();
  }
}
