import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { ModeFacts } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Count } from '../../../src/modes/traffic-counts.ts';
import type { Protocol } from '../../../src/net/protocol.ts';
import { serviceMetrics } from '../../../src/serve/collectors.ts';
import { servicePortsMax } from '../../../src/serve/metric-table.ts';
import { readingsKept, ServiceCounters } from '../../../src/serve/service-counters.ts';
import { all, byFrontend, clusterIP, forwarding, pool } from '../modes/nftables/forwardings.ts';
import { address } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

const web = forwarding('web', pool(1), { frontends: [clusterIP('10.96.0.1')] });
const shop = forwarding('shop', pool(1), { frontends: [clusterIP('10.96.0.2')] });

/** A kernel that has counted, and who asks. */
class Node {
  counts: Count[] = [];
  inForce = all(web, shop);
  readonly gone = new Set<string>();
  /** Of each Service. */
  ports: { readonly name: string; readonly protocol: Protocol }[] = [{ name: '', protocol: 'TCP' }];
  readonly clock = new ToyClock();
  config = { serviceMetrics: true };
  readonly kernel = {} as Kernel;
  mode: ModeFacts = {
    ...nftablesMode,
    trafficCounts: async (_kernel, _family, _pause, told) => this.counts.forEach(told),
  };
  readonly state = {
    service: (key: string) => (this.gone.has(key) ? undefined : { ports: this.ports }),
  };
  readonly connectionLimits = { refusals: { counts: () => [], refresh: async () => {} } };
  readonly counters = new ServiceCounters(this);

  get engine() {
    return { connectTime: undefined, frontends: byFrontend(this.inForce) };
  }

  /** What each Service has had, once what was read is no longer kept. */
  async connections(): Promise<Record<string, number> | undefined> {
    await this.clock.pass(2000);
    const traffic = await this.counters.read();
    return (
      traffic && Object.fromEntries(traffic.services.map((one) => [one.service, one.connections]))
    );
  }
}

function toFrontend(ip: string, count: number): Count {
  const destination = { address: address(ip), port: 80, protocol: 'TCP' } as const;
  return { id: `connections ${ip}`, count, destination, of: { kind: 'connections' } };
}

describe('connections by Service', () => {
  it('are those of the kernel, including those before this process', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 1000), toFrontend('10.96.0.2', 5)];
    expect(await node.connections()).toEqual({ web: 1000, shop: 5 });
    node.counts = [toFrontend('10.96.0.1', 1001), toFrontend('10.96.0.2', 5)];
    expect(await node.connections()).toEqual({ web: 1001, shop: 5 });
  });

  it('continue when the element is replaced, or missing from a reading', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 1000)];
    await node.connections();
    node.counts = [];
    expect(await node.connections()).toEqual({ web: 1000 });
    node.counts = [toFrontend('10.96.0.1', 1002)];
    expect(await node.connections()).toEqual({ web: 1002 });
    node.counts = [toFrontend('10.96.0.1', 3)];
    expect(await node.connections()).toEqual({ web: 1005 });
  });

  it('of a port that its Service has no more are forgotten, not those of its address', async () => {
    const node = new Node();
    const named = (port: string) => {
      const servicePort = { ...web.servicePort, port };
      return forwarding('web', pool(1), { frontends: [clusterIP('10.96.0.1')], servicePort });
    };
    const refused: Count = {
      id: 'refused-ports 10.96.0.1',
      count: 3,
      destination: { address: address('10.96.0.1'), port: undefined, protocol: undefined },
      of: { kind: 'refusals', reason: 'no_such_port' },
    };
    const seen = async (port: string, count: number): Promise<string[]> => {
      node.ports = [{ name: port, protocol: 'TCP' }];
      node.inForce = all(named(port));
      node.counts = [toFrontend('10.96.0.1', count), refused];
      await node.connections();
      return (await node.counters.read())!.services.map((one) => `${one.port}/${one.protocol}`);
    };
    expect(await seen('a', 1)).toEqual(['a/TCP', '/']);
    expect(await seen('b', 2)).toEqual(['/', 'b/TCP']);
    expect(await seen('c', 3)).toEqual(['/', 'c/TCP']);
  });

  it('are forgotten when their element has been missing for long, so that another one is new', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 1000), toFrontend('10.96.0.2', 5)];
    await node.connections();
    const [, stays] = node.counts;
    node.counts = [stays!];
    for (let i = 0; i < 2 * readingsKept; i += 1) await node.connections();
    node.counts = [toFrontend('10.96.0.1', 1002), stays!];
    expect(await node.connections()).toEqual({ web: 2002, shop: 5 });
  });

  it('are forgotten earlier where most elements are others at each reading', async () => {
    const node = new Node();
    const first = toFrontend('10.96.0.1', 1000);
    const others = (from: number) =>
      Array.from({ length: 600 }, (_, i) => ({
        ...toFrontend('10.96.0.2', 1)!,
        id: `${from + i}`,
      }));
    const total = async () => (await node.connections())?.web;
    node.counts = [first];
    expect(await total()).toBe(1000);
    for (let i = 0; i < 20; i += 1) {
      node.counts = others(i * 600);
      await node.connections();
    }
    node.counts = [first];
    expect(await total()).toBe(2000);
  });

  it('of a frontend that passes to another Service stay with its earlier owner', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 10)];
    await node.connections();
    node.inForce = all(forwarding('new', pool(1), { frontends: [clusterIP('10.96.0.1')] }));
    node.counts = [toFrontend('10.96.0.1', 14)];
    expect(await node.connections()).toEqual({ web: 10, new: 4 });
    node.gone.add('ns/web');
    expect(await node.connections()).toEqual({ new: 4 });
  });

  it('are read once for all callers, at most every two seconds', async () => {
    const node = new Node();
    let reads = 0;
    node.mode = {
      ...nftablesMode,
      trafficCounts: async () => {
        reads += 1;
      },
    };
    await Promise.all([node.counters.read(), node.counters.read(), node.counters.read()]);
    await node.clock.pass(1999);
    await node.counters.read();
    expect(reads).toBe(1);
    await node.connections();
    expect(reads).toBe(2);
  });

  it('have rates, from the second reading on, unless the first is long ago', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 1000)];
    expect((await node.counters.read())!.rates).toBeUndefined();
    node.counts = [toFrontend('10.96.0.1', 1010), toFrontend('10.96.0.2', 0)];
    await node.clock.pass(4000);
    expect((await node.counters.read())!.rates).toEqual({
      ...{ connections: 2.5, refusals: 0 },
      services: new Map([['ns/web', 2.5]]),
    });
    await node.clock.pass(2000);
    expect((await node.counters.read())!.rates!.services.size).toBe(0);
    await node.clock.pass(60_001);
    expect((await node.counters.read())!.rates).toBeUndefined();
  });

  it('have refusals of ten minutes, without those between readings that are far apart', async () => {
    const node = new Node();
    const refused = async (count: number, afterMs: number) => {
      await node.clock.pass(afterMs);
      const of = { kind: 'refusals', reason: 'no_such_port' } as const;
      node.counts = [{ ...toFrontend('10.96.0.1', count), of }];
      return (await node.counters.read())!.refused!.reduce((sum, one) => sum + one);
    };
    const sums = [await refused(7, 0), await refused(9, 60_000), await refused(12, 60_001)];
    expect([...sums, await refused(17, 3000)]).toEqual([0, 2, 2, 7]);
  });

  it('are not reported if nothing is counted', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 10)];
    await node.connections();
    node.config = { serviceMetrics: false };
    expect(await node.connections()).toBeUndefined();
  });
});

/** What the kernel has counted of one endpoint of `web`. */
function outcomes(tried: number, answered: number, resets: number, at: string): Count[] {
  const destination = { address: address('10.96.0.1'), port: 80, protocol: 'TCP' } as const;
  const counts = { endpoint: tried, answers: answered, resets } as const;
  return (['endpoint', 'answers', 'resets'] as const).map((kind) => {
    const of = { kind, endpoint: at, isFollowed: true };
    return { id: `${kind} ${at}`, count: counts[kind], destination, of };
  });
}

describe('outcomes of connections to endpoints', () => {
  const own = web.cluster.text(0);

  async function read(node: Node, counts: Count[]) {
    node.counts = counts;
    await node.clock.pass(2000);
    const [only] = (await node.counters.read())!.services;
    return { ...only!.outcomes, ofEndpoint: only!.endpoints.get(own) };
  }

  it('add up by Service port, and by endpoint are those that the kernel has', async () => {
    const node = new Node();
    await read(node, outcomes(4, 3, 2, own));
    const ofEndpoint = { connections: 3, outcomes: { tried: 3, answered: 2, reset: 0 } };
    const sums = { tried: 7, answered: 5, reset: 2 };
    expect(await read(node, outcomes(3, 2, 0, own))).toEqual({ ...sums, ofEndpoint });
    const more = { tried: 12, answered: 7, reset: 3, ofEndpoint: undefined };
    expect(await read(node, outcomes(5, 2, 1, '10.9.9.9:1'))).toEqual(more);
  });

  it('are not of connections that are not followed, as answers may be missing', async () => {
    const node = new Node();
    const counted = (isFollowed: boolean, ...counts: [number, number, number]) => {
      const found = outcomes(...counts, own).map((one) => {
        return { ...one, of: { ...one.of, isFollowed } } as Count;
      });
      return read(node, found);
    };
    const none = { tried: 0, answered: 0, reset: 0 };
    const ofEndpoint = { connections: 9 };
    expect(await counted(false, 9, 0, 0)).toEqual({ ...none, ofEndpoint });
    expect(await counted(false, 9, 3, 2)).toEqual({ ...none, ofEndpoint });
    const known = { ...ofEndpoint, outcomes: { tried: 9, answered: 3, reset: 2 } };
    expect(await counted(true, 9, 3, 2)).toEqual({ ...none, ofEndpoint: known });
  });

  it('are not of a reading in which answers could not be read', async () => {
    const node = new Node();
    node.mode = {
      ...nftablesMode,
      trafficCounts: async (_kernel, _family, _pause, told) => {
        told(outcomes(9, 9, 0, own)[0]!);
        throw new Error('the dump was interrupted');
      },
    };
    expect(await read(node, [])).toMatchObject({ tried: 0, answered: 0, reset: 0 });
  });
});

it('the number of series by Service is bounded, and the omitted ones are counted', async () => {
  const registry = new Registry();
  const one = {
    family: 'IPv4',
    namespace: 'ns',
    port: '',
    protocol: 'TCP',
    connections: 1,
  } as const;
  const outcomes = { tried: 1, answered: 0, reset: 0 };
  const none = { refusals: new Map(), endpoints: new Map(), outcomes };
  const services = Array.from({ length: servicePortsMax + 7 }, (_, i) => {
    return { ...one, ...none, service: `s${i}` };
  });
  serviceMetrics(registry, { counters: { read: async () => ({ readAtMs: 0, services }) } });
  const lines = (await registry.metrics()).split('\n');
  const series = lines.filter((line) => line.startsWith('fairlead_service_connections_total{'));
  expect(series).toHaveLength(servicePortsMax);
  expect(lines).toContain('fairlead_service_metrics_left_out 7');
});
