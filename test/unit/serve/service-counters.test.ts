import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { ModeFacts } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Count } from '../../../src/modes/traffic-counts.ts';
import { ServiceCounters } from '../../../src/serve/service-counters.ts';
import { serviceMetrics, servicePortsMax } from '../../../src/serve/service-metrics.ts';
import { all, clusterIP, forwarding, pool } from '../modes/nftables/forwardings.ts';
import { address } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

const web = forwarding('web', pool(1), { frontends: [clusterIP('10.96.0.1')] });
const shop = forwarding('shop', pool(1), { frontends: [clusterIP('10.96.0.2')] });

/** A kernel that has counted, and who asks. */
class Node {
  counts: Count[] = [];
  inForce = all(web, shop);
  readonly gone = new Set<string>();
  readonly clock = new ToyClock();
  mode: ModeFacts | undefined = {
    ...nftablesMode,
    trafficCounts: async (_kernel, _family, _pause, told) => this.counts.forEach(told),
  };
  readonly counters = new ServiceCounters({
    kernel: {} as Kernel,
    clock: this.clock,
    mode: () => this.mode,
    connectTime: () => undefined,
    families: () => [{ family: 'IPv4', inForce: this.inForce }],
    isKnown: (service) => !this.gone.has(service),
  });

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
  it('are what the kernel has counted, also before this process', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 1000), toFrontend('10.96.0.2', 5)];
    expect(await node.connections()).toEqual({ web: 1000, shop: 5 });
    node.counts = [toFrontend('10.96.0.1', 1001), toFrontend('10.96.0.2', 5)];
    expect(await node.connections()).toEqual({ web: 1001, shop: 5 });
  });

  it('go on where the element is another one, or missing from a reading', async () => {
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

  it('of a frontend that another Service takes over belong to whoever had it', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 10)];
    await node.connections();
    node.inForce = all(forwarding('new', pool(1), { frontends: [clusterIP('10.96.0.1')] }));
    node.counts = [toFrontend('10.96.0.1', 14)];
    expect(await node.connections()).toEqual({ web: 10, new: 4 });
    node.gone.add('ns/web');
    expect(await node.connections()).toEqual({ new: 4 });
  });

  it('are read once, however many ask, until two seconds have gone', async () => {
    const node = new Node();
    let reads = 0;
    node.mode = {
      ...nftablesMode,
      trafficCounts: async () => {
        reads += 1;
      },
    };
    await Promise.all([node.counters.read(), node.counters.read(), node.counters.read()]);
    expect(reads).toBe(1);
    await node.connections();
    expect(reads).toBe(2);
  });

  it('are not told where nothing is counted', async () => {
    const node = new Node();
    node.counts = [toFrontend('10.96.0.1', 10)];
    await node.connections();
    node.mode = undefined;
    expect(await node.connections()).toBeUndefined();
  });
});

it('series are bounded, and what is left out is said', async () => {
  const registry = new Registry();
  const one = {
    family: 'IPv4',
    namespace: 'ns',
    port: '',
    protocol: 'TCP',
    connections: 1,
  } as const;
  const none = { refusals: new Map(), frontends: new Map(), endpoints: new Map() };
  const services = Array.from({ length: servicePortsMax + 7 }, (_, i) => {
    return { ...one, ...none, service: `s${i}` };
  });
  serviceMetrics(registry, { read: async () => ({ readAtMs: 0, services }) });
  const lines = (await registry.metrics()).split('\n');
  const series = lines.filter((line) => line.startsWith('fairlead_service_connections_total{'));
  expect(series).toHaveLength(servicePortsMax);
  expect(lines).toContain('fairlead_service_metrics_left_out 7');
});
