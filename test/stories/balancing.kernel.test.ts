/**
 * How connections are shared out, as packets show it: by weight in every mode, in turn, by hashes,
 * and alike on all nodes. BALANCED_CONNECTIONS is the number of connections for a share; default:
 * 10,000.
 */
import type { ChildProcess } from 'node:child_process';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import { hashSeed } from '../../src/kernel/nft/rule.ts';
import { parseAddress } from '../../src/net/address.ts';
import { EndpointList } from '../../src/net/endpoint-list.ts';
import type { Balance } from '../../src/state/deal.ts';
import { hashTable } from '../../src/state/hash-table.ts';
import { hashed } from '../fake/jhash.ts';
import { CLIENT_IP, clusterIp, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { load, serveLoad } from '../lab/load.ts';
import {
  BASELINE,
  DEFAULT_CLUSTER_CIDR,
  type KubernetesObject,
  service,
  slice,
} from '../lab/objects.ts';
import { paced } from '../lab/pace.ts';
import type { RunningProxy } from '../lab/proxy.ts';
import { vip } from './common.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { cleanup, fairlead, type LogLine } from './fairlead-proxy.ts';

const connections = Number(process.env.BALANCED_CONNECTIONS ?? 10_000);
const longestMs = 400_000;
const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR } as const;

/** Addresses of pod-a, at which the load server listens. */
const hosts = [2, 101, 102, 103].map((host) => `10.244.1.${host}`);
/** Ports of pod-a, each of them an endpoint that answers with its number. */
const ports = [8081, 8082, 8083, 8084, 8085, 8086];

let lab: Lab;
let server: ChildProcess;
beforeAll(async () => {
  lab = await createLab();
  const pod = lab.actors['pod-a'];
  const commands = hosts.slice(1).map((address) => `addr add ${address}/24 dev eth0`);
  await pod.run(['ip', '-batch', '-'], commands.join('\n'));
  // So many connections would fill the table of connection tracking.
  await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_timeout_close=1']);
  server = await serveLoad(pod, 8080);
  for (const port of ports) await pod.listen('UDP', POD_A_IP.IPv4, port);
});
afterAll(async () => {
  server?.kill();
  await lab?.close();
});

let running: RunningProxy | undefined;
async function stop(): Promise<void> {
  const stopped = running?.stop();
  running = undefined;
  await stopped;
  await cleanup(lab.node);
  await lab.actors.node.flushConntrack();
}
afterEach(stop);

function annotated(object: KubernetesObject, annotations: Record<string, string>) {
  return { ...object, metadata: { ...object.metadata, annotations } } as KubernetesObject;
}

/** One EndpointSlice for each endpoint, with its weight. */
function weighted(weights: readonly number[]): KubernetesObject[] {
  return weights.map((weight, i) =>
    annotated(slice('IPv4', 'web', [{ at: { IPv4: hosts[i]! } }], { suffix: `-${i}` }), {
      'fairlead.io/weight': `${weight}`,
    }),
  );
}

function web(balance: Balance | undefined, name = 'web', at = vip): KubernetesObject {
  const one = service(name, { clusterIp: { IPv4: at.IPv4 } });
  return balance === undefined ? one : annotated(one, { 'fairlead.io/balance': balance });
}

/** The share of each host in many connections. */
async function shares(): Promise<number[]> {
  const counts = new Map<string, number>();
  let count = 0;
  while (count < connections) {
    const to = { address: vip.IPv4, port: 80 };
    const { made } = await load(lab.actors.client, to, { seconds: 1, clients: 4 });
    if (!made.some(({ by }) => by !== undefined)) throw new Error('no connection was answered');
    for (const { by } of made) {
      if (by === undefined) continue;
      counts.set(by, (counts.get(by) ?? 0) + 1);
      count += 1;
    }
  }
  return hosts.map((host) => (counts.get(host) ?? 0) / count);
}

async function start(
  objects: readonly KubernetesObject[],
  mode: ModeName = 'nftables',
  log: (line: LogLine) => void = () => {},
): Promise<RunningProxy> {
  const proxy = mode === 'userspace' ? fairleadInside(mode) : fairlead(mode, { log });
  running = await proxy.start(lab.node, settings, [...BASELINE, ...objects]);
  return running;
}

function expectShares(found: readonly number[], weights: readonly number[]): void {
  const sum = weights.reduce((a, b) => a + b, 0);
  weights.forEach((weight, i) => {
    expect(Math.abs(found[i]! - weight / sum), `${found} of ${weights}`).toBeLessThan(0.03);
  });
}

describe.each<ModeName>(['nftables', 'iptables', 'userspace'])('in mode %s', (mode) => {
  test(
    'endpoints get connections by their weights, and by others when these change',
    async () => {
      const first = [100, 200, 50, 0];
      const proxy = await start([web(undefined), ...weighted(first)], mode);
      const found = await shares();
      expectShares(found, first);
      expect(found[3]).toBe(0);
      const second = [10, 10, 70, 30];
      await proxy.apply([...BASELINE, web(undefined), ...weighted(second)]);
      expectShares(await shares(), second);
    },
    longestMs,
  );
});

describe('in mode nftables', () => {
  test.each<Balance>(['random', 'round-robin', 'flow-hash', 'maglev'])(
    'connections by %s are shared out by weight',
    async (balance) => {
      const weights = [100, 200, 50, 100];
      await start([web(balance), ...weighted(weights)]);
      expectShares(await shares(), weights);
    },
    longestMs,
  );

  test('each of two Services with as many endpoints takes turns of its own', async () => {
    const otherAt = clusterIp(11);
    await start([
      ...datagrams('round-robin', ports.slice(0, 3)),
      ...datagrams('round-robin', ports.slice(3), 'other', otherAt),
    ]);
    const order: number[] = [];
    for (let i = 0; i < 12; i += 1) {
      order.push(await answerTo({}));
      await answerTo({}, otherAt.IPv4);
    }
    expect(order.slice(0, 3).sort()).toEqual(ports.slice(0, 3));
    expect(order.slice(3)).toEqual(order.slice(0, -3));
  });

  test('a client keeps its endpoint by source-hash, and clients are spread', async () => {
    await start(datagrams('source-hash', ports));
    const client = lab.actors.client;
    const addresses = Array.from({ length: 24 }, (_, i) => `198.51.100.${150 + i}`);
    const commands = addresses.map((address) => `addr add ${address}/24 dev eth0`);
    await client.run(['ip', '-batch', '-'], commands.join('\n'));
    const answers: number[] = [];
    for (const address of addresses) {
      const own = new Set<number>();
      for (let i = 0; i < 4; i += 1) own.add(await answerTo({ address }));
      expect(own.size).toBe(1);
      answers.push(...own);
    }
    expect(new Set(answers).size).toBeGreaterThan(3);
  });

  test('six nodes with other lives before choose alike by maglev, from the table', async () => {
    const list = EndpointList.of(
      'IPv4',
      ports.map((port) => ({ address: parseAddress(POD_A_IP.IPv4)!.bytes, port })),
    );
    const table = hashTable(
      list,
      ports.map(() => 100),
      Number.POSITIVE_INFINITY,
    );
    const flows = Array.from({ length: 24 }, (_, i) => 5000 + i);
    const expected = flows.map((port) => table.port(slotOf(CLIENT_IP.IPv4, port, table.length)));
    expect(new Set(expected).size).toBeGreaterThan(3);
    for (const [i, first] of ports.entries()) {
      // Each begins with others, in another order.
      const before = [...ports.slice(i), ...ports.slice(0, i)].slice(0, 2 + (i % 3));
      const proxy = await start(datagrams('maglev', i % 2 === 0 ? before : [first]));
      await proxy.apply([...BASELINE, ...datagrams('maglev', before.toReversed())]);
      await proxy.apply([...BASELINE, ...datagrams('maglev', ports)]);
      await lab.actors.node.flushConntrack();
      const answers: number[] = [];
      for (const port of flows) answers.push(await answerTo({ port }));
      expect(answers).toEqual(expected);
      await stop();
    }
  });

  test('what cannot be done is done at random, and the log says so', async () => {
    const lines: LogLine[] = [];
    await start(datagrams('least-connections', ports), 'nftables', (line) => lines.push(line));
    const told = lines.filter(({ msg }) => msg === 'Balance of Service cannot be done here');
    expect(told.map(({ err }) => err)).toEqual([
      'balance least-connections is not done: mode nftables cannot do it; connections are shared out as without it',
    ]);
    const answers = new Set<number>();
    while (answers.size < 3) answers.add(await answerTo({}));
  });

  test('nft lists what we write', async () => {
    await start([
      ...datagrams('maglev', ports),
      ...datagrams('round-robin', ports.slice(0, 2), 'turns', clusterIp(11)),
    ]);
    const text = await lab.node.run(['nft', 'list', 'table', 'ip', 'fairlead']);
    expect(text).toContain('jhash ip saddr . th sport mod 4093 seed 0x66616972 map @endpoints-');
    expect(text).toContain('numgen inc mod 2 map @endpoints-');
  });
});

/** The slot that the kernel draws for a flow (`jhash ip saddr . th sport`). */
function slotOf(address: string, port: number, slots: number): number {
  const key = new Uint8Array(8);
  key.set(parseAddress(address)!.bytes);
  new DataView(key.buffer).setUint16(4, port);
  return hashed(key, hashSeed, slots);
}

/** A Service of UDP, with an endpoint at each of these ports of pod-a. */
function datagrams(
  balance: Balance,
  at: readonly number[],
  name = 'web',
  address = vip,
): KubernetesObject[] {
  const one = service(name, {
    clusterIp: { IPv4: address.IPv4 },
    ports: [{ port: 80, protocol: 'UDP' }],
  });
  const endpoint = [{ at: { IPv4: POD_A_IP.IPv4 } }];
  return [
    annotated(one, { 'fairlead.io/balance': balance }),
    ...at.map((port) => {
      return slice('IPv4', name, endpoint, {
        ports: [{ port, protocol: 'UDP' }],
        suffix: `-${port}`,
      });
    }),
  ];
}

/** The port of pod-a that answers a new flow. */
async function answerTo(
  from: { readonly address?: string; readonly port?: number },
  address: string = vip.IPv4,
): Promise<number> {
  const to = { address, port: 80 };
  const attempt = { protocol: 'UDP', from, to, timeoutMs: paced(3000) } as const;
  const [tally] = await lab.actors.client.connect(attempt, 1);
  if (tally?.outcome.kind !== 'answered') throw new Error(JSON.stringify(tally?.outcome));
  return tally.outcome.port;
}
