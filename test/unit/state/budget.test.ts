import { describe, expect, it } from 'vitest';
import {
  type Excess,
  formatExcess,
  noLimits,
  type ServiceLimits,
} from '../../../src/state/budget.ts';
import { type Resolved, resolveInSteps } from '../../../src/state/resolve.ts';
import type { EndpointSlice, Service } from '../../../src/state/types.ts';
import {
  address,
  context,
  http,
  ips,
  portsOf,
  ready,
  readyLocal,
  service,
  slice,
  slicePort,
} from './build.ts';

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

  it('keeps those on this node, then those of the first slices by name', () => {
    const expected = ['10.0.0.1:8080', '10.0.0.5:8080', '10.0.0.6:8080', '10.0.0.9:8080'];
    expect(served(4)).toEqual(expected);
    expect(served(4, slices.toReversed())).toEqual(expected);
    expect(within({ endpoints: 4 }, service(), slices).excess.map(formatExcess)).toEqual([
      'asks for 6 IPv4 endpoints at its frontends, and 4 are the most',
    ]);
  });

  it('counts an endpoint once per frontend, and leaves each of them the same number', () => {
    const ports = [{ ...http, nodePort: 30080 }];
    for (const fields of [{ externalIPs: ips(2) }, { externalIPs: ips(1), ports }]) {
      const of = service(fields);
      expect(served(18, slices, of)).toHaveLength(6);
      expect(served(17, slices, of)).toHaveLength(5);
    }
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
      'asks for 3 IPv4 source ranges at the frontends that they guard, and 2 are the most',
    ]);
  });

  it('counts them for each load-balancer frontend, and keeps at least one', () => {
    const of = guarded(['198.51.100.1', '198.51.100.2']);
    expect(kept(6, of)).toBe(3);
    expect(kept(5, of)).toBe(2);
    expect(within({ sourceRanges: 5 }, of).excess).toMatchObject([{ asked: 6 }]);
    expect(kept(1, of)).toBe(1);
    // Its node port and its external IP count, too, where they are guarded.
    const ports = [{ ...http, nodePort: 30080 }];
    const more = { ...of, externalIPs: [address('203.0.113.9')], ports };
    expect(kept(6, more)).toBe(3);
    expect(kept(12, { ...more, guardsAll: true })).toBe(3);
    expect(kept(11, { ...more, guardsAll: true })).toBe(2);
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
      told: [
        'asks for 3 IPv4 ports with session affinity or addresses with round-robin, and 2 are the most',
      ],
    });
  });

  it.each([
    [0, 3],
    [1, 2],
    [3, 1],
    [9, 1],
  ])(
    'counts the turns of a port at each of up to four addresses: %i external IPs',
    (count, most) => {
      const { forwardings } = within(
        { affinityPorts: 4 },
        service({
          ...{ ports: portsOf(3), balancing: { balance: 'round-robin' } },
          externalIPs: ips(count),
        }),
      );
      const balances = forwardings.map(({ deal }) => deal!.balance);
      expect(balances.filter((balance) => balance === 'round-robin')).toHaveLength(most);
    },
  );

  it('counts turns in addition to clients', () => {
    const balancing = { balance: 'round-robin' } as const;
    expect(remembering(3, { balancing }).timeouts).toEqual([60, 0, 0]);
    expect(remembering(4, { balancing }).timeouts).toEqual([60, 60, 0]);
  });
});

describe('the limits of a Service whose objects name little', () => {
  const limits = { frontends: 20_000, endpoints: 250_000 };
  const costly = (ports: number, externalIPs: number, endpoints: number, fields = {}) => {
    const hosts = Array.from({ length: endpoints }, (_, i) => [`10.0.${i >> 8}.${i & 255}`, ready]);
    const of = service({ ports: portsOf(ports), externalIPs: ips(externalIPs), ...fields });
    const slicePorts = portsOf(ports).map(({ name }) => slicePort(name, 8080));
    const slices = [slice(Object.fromEntries(hosts), { ports: slicePorts })];
    return (most: Partial<ServiceLimits> = limits) => {
      const { excess, forwardings } = within(most, of, slices);
      const frontendCount = forwardings.reduce((sum, one) => sum + one.frontends.length, 0);
      return { frontends: frontendCount, endpoints: forwardings[0]!.cluster.length, excess };
    };
  };

  it('are an eighth, and a 1,024th for each port, address and endpoint', () => {
    // 2,500 and 19.53 × (150 + 100): whole addresses.
    const { frontends: found, excess } = costly(150, 99, 0)();
    expect(found).toBe(7350);
    expect(excess.map(formatExcess)).toEqual([
      'asks for 15000 IPv4 frontends, and 7382 are the most',
    ]);
    // 31,250 and 244.14 × (40 + 100 + 60), at 4,000 frontends.
    const { endpoints, excess: cut } = costly(40, 99, 60)();
    expect(endpoints).toBe(20);
    expect(cut.map(formatExcess)).toEqual([
      'asks for 240000 IPv4 endpoints at its frontends, and 80078 are the most',
    ]);
  });

  it('count an endpoint twice where a frontend may have it in two pools', () => {
    const { endpoints } = costly(40, 99, 60, { externalTrafficPolicy: 'Local' })();
    expect(endpoints).toBe(10);
  });

  it.each([
    [500, 500],
    [250, 1000],
    [2500, 100],
  ])('are the whole limits for %i ports at one address with %i endpoints', (ports, endpoints) => {
    const { excess, ...found } = costly(ports, 0, endpoints)();
    expect({ excess, ...found }).toEqual({ excess: [], frontends: ports, endpoints });
  });
});
