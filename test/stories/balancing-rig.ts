/**
 * How connections are shared out, as packets show it: a lab, a proxy in it, and who answers.
 * BALANCED_CONNECTIONS is the number of connections for a share; default: 4,000.
 */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import type { Balance } from '../../src/state/deal.ts';
import { type ActorName, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { load, serveLoad } from '../lab/load.ts';
import { BASELINE, type KubernetesObject, service, settings, slice } from '../lab/objects.ts';
import { answerMs, paced } from '../lab/pace.ts';
import type { RunningProxy } from '../lab/proxy.ts';
import { vip } from './common.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { cleanup, type FairleadOptions, fairlead } from './fairlead-proxy.ts';

const connections = Number(process.env.BALANCED_CONNECTIONS ?? 4000);
/** How long a test with several shares may take. */
export const longestMs = 400_000;

/** Addresses of pod-a, at which the load server listens. */
const hosts = [2, 101, 102, 103].map((host) => `10.244.1.${host}`);
/** Ports of pod-a, each of them an endpoint that answers with its number. */
export const ports = [8081, 8082, 8083, 8084, 8085, 8086];

export class BalancingRig {
  readonly lab: Lab;
  /** Connections that stay open, each with the port of pod-a that it has. */
  readonly held = new Map<string, number>();
  readonly #server: ChildProcess;
  #running: RunningProxy | undefined;

  private constructor(lab: Lab, server: ChildProcess) {
    this.lab = lab;
    this.#server = server;
  }

  static async create(): Promise<BalancingRig> {
    const lab = await createLab();
    const pod = lab.actors['pod-a'];
    const commands = hosts.slice(1).map((address) => `addr add ${address}/32 dev eth0`);
    await pod.run(['ip', '-batch', '-'], commands.join('\n'));
    // This number of connections would fill the table of connection tracking.
    await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_timeout_close=1']);
    const server = await serveLoad(pod, 8080);
    for (const port of ports) {
      for (const protocol of ['TCP', 'UDP'] as const)
        await pod.listen(protocol, POD_A_IP.IPv4, port);
    }
    return new BalancingRig(lab, server);
  }

  async close(): Promise<void> {
    this.#server.kill();
    await this.lab.close();
  }

  async start(
    objects: readonly KubernetesObject[],
    mode: ModeName = 'nftables',
    options: FairleadOptions = {},
  ): Promise<RunningProxy> {
    const proxy = mode === 'userspace' ? fairleadInside(mode) : fairlead(mode, options);
    const { connectTime } = options;
    const asked =
      connectTime === undefined ? settings : { ...settings, connectTime: 'all' as const };
    this.#running = await proxy.start(this.lab.node, asked, [...BASELINE, ...objects]);
    return this.#running;
  }

  async stop(): Promise<void> {
    const stopped = this.#running?.stop();
    this.#running = undefined;
    await stopped;
    await cleanup(this.lab.node);
    await this.lab.actors.client.reset();
    this.held.clear();
    await this.lab.actors.node.flushConntrack();
  }

  /** Endpoints get connections by their weights, and by others when these change. */
  async weigh(mode: ModeName, most = connections): Promise<void> {
    const first = [100, 200, 50, 0];
    const proxy = await this.start([web(undefined), ...weighted(first)], mode);
    const found = await this.shares(most);
    expectShares(found, first);
    expect(found[3]).toBe(0);
    const second = [10, 10, 70, 30];
    await proxy.apply([...BASELINE, web(undefined), ...weighted(second)]);
    expectShares(await this.shares(most), second);
  }

  /** The share of each host in at least `most` connections of a client. */
  async shares(most = connections, client: ActorName = 'client'): Promise<number[]> {
    const counts = new Map<string, number>();
    let count = 0;
    let answeredMs = performance.now();
    while (count < most) {
      const to = { address: vip.IPv4, port: 80 };
      const limits = { seconds: 1, clients: 4, count: most - count };
      const { made } = await load(this.lab.actors[client], to, limits);
      const isAnswered = made.some(({ by }) => by !== undefined);
      // A busy machine may stop a proxy, which answers itself in mode userspace, for a second.
      if (isAnswered) answeredMs = performance.now();
      else if (performance.now() - answeredMs > answerMs) throw new Error('no answer');
      for (const { by } of made) {
        if (by === undefined) continue;
        counts.set(by, (counts.get(by) ?? 0) + 1);
        count += 1;
      }
    }
    return hosts.map((host) => (counts.get(host) ?? 0) / count);
  }

  async hold(flow = `flow ${this.held.size}`): Promise<void> {
    const attempt = { protocol: 'TCP', to: { address: vip.IPv4, port: 80 } } as const;
    const outcome = await this.lab.actors.client.open(flow, { ...attempt, timeoutMs: answerMs });
    if (outcome.kind !== 'answered') throw new Error(JSON.stringify(outcome));
    this.held.set(flow, outcome.port);
  }

  /** How many connections it takes until first endpoints hold about as many for their weights. */
  async evenOut(...weights: readonly number[]): Promise<number> {
    const before = this.held.size;
    for (;;) {
      const loads = weights.map((weight, i) => this.counts()[i]! / weight);
      if (Math.max(...loads) < 1.5 * Math.min(...loads)) return this.held.size - before;
      for (let n = 0; n < 5; n += 1) await this.hold();
      await sleep(paced(500));
    }
  }

  counts(): number[] {
    return ports.map((port) => [...this.held.values()].filter((one) => one === port).length);
  }

  /** The port of pod-a that answers a new flow. */
  async answerTo(
    from: { readonly address?: string; readonly port?: number },
    address: string = vip.IPv4,
  ): Promise<number> {
    const to = { address, port: 80 };
    const attempt = { protocol: 'UDP', from, to, timeoutMs: answerMs } as const;
    const [tally] = await this.lab.actors.client.connect(attempt, 1);
    if (tally?.outcome.kind !== 'answered') throw new Error(JSON.stringify(tally?.outcome));
    return tally.outcome.port;
  }
}

export function annotated(object: KubernetesObject, annotations: Record<string, string>) {
  return { ...object, metadata: { ...object.metadata, annotations } } as KubernetesObject;
}

/** One EndpointSlice for each endpoint, with its weight. */
export function weighted(weights: readonly number[]): KubernetesObject[] {
  return weights.map((weight, i) =>
    annotated(slice('IPv4', 'web', [{ at: { IPv4: hosts[i]! } }], { suffix: `-${i}` }), {
      'fairlead.io/weight': `${weight}`,
    }),
  );
}

export function web(balance: Balance | undefined, name = 'web', at = vip): KubernetesObject {
  const one = service(name, { clusterIp: { IPv4: at.IPv4 } });
  return balance === undefined ? one : annotated(one, { 'fairlead.io/balance': balance });
}

/**
 * How far a share may be from its weight: six standard deviations of a half in `connections`, so that
 * chance fails one run in half a billion, and less than what the weights of these tests differ by.
 */
const apartMost = 0.05;

export function expectShares(found: readonly number[], weights: readonly number[]): void {
  const sum = weights.reduce((a, b) => a + b, 0);
  weights.forEach((weight, i) => {
    expect(Math.abs(found[i]! - weight / sum), `${found} of ${weights}`).toBeLessThan(apartMost);
  });
}

/** A Service of UDP, with an endpoint at each of these ports of pod-a. */
export function datagrams(
  balance: Balance,
  at: readonly number[],
  name = 'web',
  address = vip,
): KubernetesObject[] {
  return atPorts('UDP', { 'fairlead.io/balance': balance }, at, name, address);
}

/** The same, of a protocol, with annotations. */
export function atPorts(
  protocol: 'TCP' | 'UDP',
  annotations: Record<string, string>,
  at: readonly number[],
  name = 'web',
  address = vip,
): KubernetesObject[] {
  const one = service(name, {
    clusterIp: { IPv4: address.IPv4 },
    ports: [{ port: 80, protocol }],
  });
  const endpoint = [{ at: { IPv4: POD_A_IP.IPv4 } }];
  return [
    annotated(one, annotations),
    ...at.map((port) => {
      return slice('IPv4', name, endpoint, { ports: [{ port, protocol }], suffix: `-${port}` });
    }),
  ];
}
