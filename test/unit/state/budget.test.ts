import { describe, expect, it } from 'vitest';
import {
  type Excess,
  formatExcess,
  noLimits,
  type ServiceLimits,
} from '../../../src/state/budget.ts';
import { type Resolved, resolve, resolveInSteps } from '../../../src/state/resolve.ts';
import type { EndpointSlice, Service } from '../../../src/state/types.ts';
import { context, ips, portsOf, ready, readyLocal, service, slice, slicePort } from './build.ts';

function within(
  limits: Partial<ServiceLimits>,
  of: Service,
  slices: readonly EndpointSlice[] = [],
): Resolved & { readonly steps: number } {
  const run = resolveInSteps(of, slices, { ...context, limits: { ...noLimits, ...limits } });
  for (let steps = 0; ; steps += 1) {
    const { done, value } = run.next();
    if (done) return { ...value, steps };
  }
}

/** `p0 clusterIP, p0 nodePort …` */
function frontends({ forwardings }: Resolved): string[] {
  return forwardings.flatMap(({ servicePort, frontends }) =>
    frontends.map(({ kind }) => `${servicePort.port} ${kind}`),
  );
}

describe('the cost of one Service', () => {
  it('is divided into many small steps', () => {
    expect(within({}, service({ ports: portsOf(500) })).steps).toBeGreaterThanOrEqual(500);
  });
});

describe('the limit of frontends of a Service', () => {
  const tenPorts = service({
    type: 'LoadBalancer',
    ports: portsOf(10, { nodePort: 30000 }),
    loadBalancerIPs: ['198.51.100.1'],
    externalIPs: ips(2),
  });
  const kinds = (limit: number) => {
    const counts = new Map<string, number>();
    for (const frontend of frontends(within({ frontends: limit }, tenPorts))) {
      const kind = frontend.split(' ')[1]!;
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    return Object.fromEntries(counts);
  };

  it('has no effect while it is not reached', () => {
    const all = within({ frontends: 50 }, tenPorts);
    expect(all.excess).toEqual([]);
    expect(all.forwardings).toEqual(resolve(tenPorts, [], context));
    expect(kinds(50)).toEqual({ clusterIP: 10, loadBalancerIP: 10, externalIP: 20, nodePort: 10 });
  });

  it.each([
    [49, { clusterIP: 10, loadBalancerIP: 10, externalIP: 10, nodePort: 10 }],
    [39, { clusterIP: 10, loadBalancerIP: 10, nodePort: 10 }],
    [29, { clusterIP: 10, nodePort: 10 }],
    [15, { clusterIP: 10, nodePort: 5 }],
    [7, { clusterIP: 7 }],
    [1, { clusterIP: 1 }],
  ])('of %i keeps the ClusterIP, then node ports, then whole addresses', (limit, expected) => {
    expect(kinds(limit)).toEqual(expected);
  });

  it('keeps the first ports of the Service', () => {
    expect(frontends(within({ frontends: 12 }, tenPorts)).slice(0, 5)).toEqual([
      'p0 clusterIP',
      'p0 nodePort',
      'p1 clusterIP',
      'p1 nodePort',
      'p2 clusterIP',
    ]);
  });

  it('applies to one family', () => {
    const of = service({ clusterIPs: ['10.96.0.1', 'fd00::1'], ports: portsOf(10) });
    const { forwardings, excess } = within({ frontends: 5 }, of);
    expect(forwardings).toHaveLength(10);
    expect(excess.map(formatExcess)).toEqual([
      'asks for 10 IPv4 frontends, and 5 are the most',
      'asks for 10 IPv6 frontends, and 5 are the most',
    ]);
  });

  it('bounds memory of 2,000 ports at 1,500 external IPs', () => {
    const of = service({ ports: portsOf(2000), externalIPs: ips(1500) });
    const found = within({ frontends: 20_000 }, of);
    expect(frontends(found)).toHaveLength(20_000);
    const [excess] = found.excess as [Excess];
    expect(excess).toMatchObject({ what: 'frontends', asked: 3_002_000, limit: 20_000 });
  });
});

describe('the limit of endpoints of a Service', () => {
  const slices = [
    slice({ '10.0.0.9': ready, '10.0.0.8': ready }, { key: 'ns/web-b' }),
    slice({ '10.0.0.7': ready, '10.0.0.1': readyLocal }, { key: 'ns/web-c' }),
    slice({ '10.0.0.6': ready, '10.0.0.5': ready }, { key: 'ns/web-a' }),
  ];
  const served = (endpoints: number, given = slices, of = service()) =>
    within({ endpoints }, of, given).forwardings[0]!.cluster.texts();

  it('has no effect while it is not reached', () => {
    expect(served(6)).toHaveLength(6);
    expect(within({ endpoints: 6 }, service(), slices).excess).toEqual([]);
  });

  it('keeps those on this node, then those of the first slices by name', () => {
    const expected = ['10.0.0.1:8080', '10.0.0.5:8080', '10.0.0.6:8080', '10.0.0.9:8080'];
    expect(served(4)).toEqual(expected);
    expect(served(4, slices.toReversed())).toEqual(expected);
    expect(within({ endpoints: 4 }, service(), slices).excess.map(formatExcess)).toEqual([
      'asks for 6 IPv4 endpoints at its frontends, and 4 are the most',
    ]);
  });

  it('counts an endpoint once per frontend, and leaves each of them the same number', () => {
    const of = service({ externalIPs: ips(2) });
    expect(served(18, slices, of)).toHaveLength(6);
    expect(served(17, slices, of)).toHaveLength(5);
  });

  it('keeps at least one endpoint', () => {
    expect(served(1, slices, service({ externalIPs: ips(2) }))).toEqual(['10.0.0.1:8080']);
  });

  it('of one frontend keeps the same number for each port, and is reported once', () => {
    const both = within({ frontendEndpoints: 4 }, service({ externalIPs: ips(2) }), slices);
    const expected = ['10.0.0.1:8080', '10.0.0.5:8080', '10.0.0.6:8080', '10.0.0.9:8080'];
    expect(both.forwardings[0]!.cluster.texts()).toEqual(expected);
    expect(both.excess.map(formatExcess)).toEqual([
      'asks for 6 IPv4 endpoints at one frontend, and 4 are the most',
    ]);
    expect(within({ frontendEndpoints: 6 }, service(), slices).excess).toEqual([]);
  });

  it('of one frontend precedes that of all', () => {
    const of = service({ externalIPs: ips(2) });
    const served = (endpoints: number) => within({ frontendEndpoints: 4, endpoints }, of, slices);
    expect(served(12).excess.map(({ what }) => what)).toEqual(['frontendEndpoints']);
    expect(served(12).forwardings[0]!.cluster).toHaveLength(4);
    expect(served(11).excess.map(({ what }) => what)).toEqual(['frontendEndpoints', 'endpoints']);
    expect(served(11).forwardings[0]!.cluster).toHaveLength(3);
  });

  it('bounds the memory of 5,000 ports with 1,000 endpoints', () => {
    const ports = portsOf(5000);
    const endpoints = Object.fromEntries(
      Array.from({ length: 1000 }, (_, i) => [`10.1.${i >> 8}.${i & 0xff}`, ready]),
    );
    const wide = slice(endpoints, { ports: ports.map((port) => slicePort(port.name, 80)) });
    const { forwardings } = within({ endpoints: 100_000 }, service({ ports }), [wide]);
    let kept = 0;
    for (const { cluster } of forwardings) kept += cluster.length;
    expect(kept).toBe(100_000);
  });
});

describe('the limit of source ranges of a Service', () => {
  const guarded = (loadBalancerIPs: string[]) =>
    service({
      type: 'LoadBalancer',
      loadBalancerIPs,
      loadBalancerSourceRanges: ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24'],
    });
  const kept = (sourceRanges: number, of: Service) =>
    within({ sourceRanges }, of).forwardings[0]!.sourceRanges.length;

  it('keeps the first of them: clients in none of these are not permitted', () => {
    expect(kept(3, guarded(['198.51.100.1']))).toBe(3);
    expect(kept(2, guarded(['198.51.100.1']))).toBe(2);
    const { excess } = within({ sourceRanges: 2 }, guarded(['198.51.100.1']));
    expect(excess.map(formatExcess)).toEqual([
      'asks for 3 IPv4 source ranges at its load-balancer frontends, and 2 are the most',
    ]);
  });

  it('counts them for each load-balancer frontend, and keeps at least one', () => {
    const of = guarded(['198.51.100.1', '198.51.100.2']);
    expect(kept(6, of)).toBe(3);
    expect(kept(5, of)).toBe(2);
    expect(kept(1, of)).toBe(1);
  });
});

describe('the limit of ports with session affinity of a Service', () => {
  const remembering = (affinityPorts: number, of: Parameters<typeof service>[0]) => {
    const { forwardings, excess } = within(
      { affinityPorts },
      service({ ports: portsOf(3), affinityTimeoutSeconds: 60, ...of }),
    );
    const timeouts = forwardings.map(({ affinityTimeoutSeconds }) => affinityTimeoutSeconds);
    return { timeouts, told: excess.map(formatExcess) };
  };

  it('keeps the affinity of the first ports', () => {
    expect(remembering(3, {})).toEqual({ timeouts: [60, 60, 60], told: [] });
    expect(remembering(2, {})).toEqual({
      timeouts: [60, 60, 0],
      told: ['asks for 3 IPv4 ports with session affinity or round-robin, and 2 are the most'],
    });
  });

  it('has no effect on a Service without affinity', () => {
    const of = { affinityTimeoutSeconds: 0 };
    expect(remembering(2, of)).toEqual({ timeouts: [0, 0, 0], told: [] });
  });
});
