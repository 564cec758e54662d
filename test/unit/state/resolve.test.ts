import { describe, expect, it } from 'vitest';
import { allPaths } from '../../../src/state/paths.ts';
import { resolve, resolveInSteps } from '../../../src/state/resolve.ts';
import type { EndpointSlice, Forwarding, Frontend } from '../../../src/state/types.ts';
import {
  cidr,
  context,
  draining,
  type Endpoint,
  http,
  pools,
  portsOf,
  ready,
  readyLocal,
  resolveOne,
  service,
  slice,
  slicePort,
  unready,
} from './build.ts';

/** `clusterIP 10.96.0.1:80 inside` for each frontend. */
function frontends(forwarding: Forwarding): string[] {
  return forwarding.frontends.map(({ kind, address: at, port, paths }) => {
    const where = at === undefined ? port : `${at.bytes.join('.')}:${port}`;
    return `${kind} ${where} ${nameOf(paths)}`;
  });
}

function pathsAt(forwarding: Forwarding, kind: Frontend['kind']): string | undefined {
  return nameOf(forwarding.frontends.find((other) => other.kind === kind)!.paths);
}

/** The name that `allPaths` has for this object. */
function nameOf(paths: Frontend['paths']): string | undefined {
  return Object.entries(allPaths).find(([, known]) => known === paths)?.[0];
}

const nodePort = { ...http, nodePort: 30080 };
const [a, b, _c] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];

describe('the Forwardings of a Service', () => {
  it('are one for each port and each family that has a ClusterIP', () => {
    const dns = { name: 'dns', protocol: 'UDP', port: 53, nodePort: 0 } as const;
    const of = service({ clusterIPs: ['fd00::1', '10.96.0.1'], ports: [http, dns] });
    const found = resolve(of, [], context);
    expect(found.map(({ family, servicePort }) => [family, servicePort.port])).toEqual([
      ['IPv4', 'http'],
      ['IPv4', 'dns'],
      ['IPv6', 'http'],
      ['IPv6', 'dns'],
    ]);
    expect(found[1]!.servicePort).toEqual({
      namespace: 'ns',
      name: 'web',
      port: 'dns',
      protocol: 'UDP',
    });
  });

  it('use the first of two ports with the same name and protocol', () => {
    const of = service({ ports: [http, { ...http, port: 81 }, { ...http, protocol: 'UDP' }] });
    const found = resolve(of, [], context);
    expect(found.map(({ frontends: [first] }) => first!.port)).toEqual([80, 80]);
  });
});

describe('the endpoints of a Forwarding', () => {
  const cluster = (...slices: EndpointSlice[]): string[] =>
    resolveOne(service(), slices).cluster.texts();

  it('are sorted by address and port, not by text (E15)', () => {
    expect(cluster(slice({ '10.0.1.10': ready, '10.0.1.1': ready, '9.0.0.1': ready }))).toEqual([
      '9.0.0.1:8080',
      '10.0.1.1:8080',
      '10.0.1.10:8080',
    ]);
  });

  it.each<[string, Endpoint, Endpoint]>([
    ['ready beats unready', ready, unready],
    ['ready beats terminating', ready, draining],
    [
      'prefer not terminating to ready but terminating',
      unready,
      {
        is: ['ready', 'serving', 'terminating'],
      },
    ],
    ['serving beats not serving', { is: ['serving'] }, unready],
  ])('that two slices describe differently: %s (E16, E17)', (_, better, worse) => {
    const alone = resolveOne(service(), [slice({ [a]: better })]);
    const keys = ['ns/web-1', 'ns/web-2', 'ns/web-3'];
    for (const order of [
      [better, worse, worse],
      [worse, better, worse],
      [worse, worse, better],
    ]) {
      const slices = order.map((endpoint, i) => slice({ [a]: endpoint }, { key: keys[i]! }));
      expect(pools(resolveOne(service(), slices))).toEqual(pools(alone));
    }
  });

  it('are two if one address has two port numbers (E18)', () => {
    const other = slice({ [a]: ready }, { key: 'ns/web-2', ports: [slicePort('http', 8081)] });
    expect(cluster(slice({ [a]: ready }), other)).toEqual(['10.0.0.1:8080', '10.0.0.1:8081']);
  });

  it('are those of the port with the same name and protocol (E26)', () => {
    const ports = [
      slicePort('https', 8443),
      slicePort('http', 8080, 'UDP'),
      slicePort('http', 8081),
    ];
    expect(cluster(slice({ [a]: ready }, { ports }))).toEqual(['10.0.0.1:8081']);
    expect(cluster(slice({ [a]: ready }, { ports: ports.slice(0, 2) }))).toEqual([]);
    expect(cluster(slice({ [a]: ready }, { ports: [] }))).toEqual([]);
  });
});

describe('traffic policies', () => {
  const bothKinds = [slice({ [a]: readyLocal, [b]: ready })];
  const [atA, atB] = ['10.0.0.1:8080', '10.0.0.2:8080'];

  it('know endpoints that name no node by the addresses of pods of this node', () => {
    const of = (podCIDR: string, ...slices: EndpointSlice[]): (string[] | undefined)[] => {
      const { cluster, hairpin, maybeLocal } = resolveOne(service(), slices, {
        podCIDRs: [cidr(podCIDR)],
      });
      return [cluster.texts(), hairpin.texts(), maybeLocal?.texts()];
    };
    const places = [
      { node: '', zone: '' },
      { node: 'node-b', zone: '' },
    ];
    expect(of('10.0.0.0/8', slice({ [a]: ready, [b]: ready }, { places }))).toEqual([
      [atA, atB],
      [],
      [atA],
    ]);
    expect(of('10.0.0.0/8', slice({ [a]: unready, [b]: ready }))[2]).toEqual([atB]);
    expect(of('10.1.0.0/16', slice({ [a]: ready }))[2]).toBeUndefined();
    // Of two that are the same, the one that is known to be here counts.
    const here = slice({ [a]: readyLocal }, { key: 'ns/web-2', places: [places[1]!] });
    expect(of('10.0.0.0/8', slice({ [a]: ready }), here)).toEqual([[atA], [atA], undefined]);
    expect(of('10.0.0.0/8', here, slice({ [a]: ready }))).toEqual([[atA], [atA], undefined]);
  });

  const external = {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    externalIPs: ['203.0.113.1'],
    loadBalancerIPs: ['198.51.100.1'],
    ports: [nodePort],
  } as const satisfies Parameters<typeof service>[0];

  it('lead clients outside to local endpoints with eTP Local, at every external frontend', () => {
    expect(frontends(resolveOne(service({ ...external }), bothKinds))).toEqual([
      'clusterIP 10.96.0.1:80 inside',
      'loadBalancerIP 198.51.100.1:80 outsideLocal',
      'externalIP 203.0.113.1:80 outsideLocal',
      'nodePort 30080 outsideLocal',
    ]);
  });

  it.each([
    ['ClusterIP', [], 'outside'],
    ['ClusterIP', ['203.0.113.1'], 'outsideLocal'],
    ['NodePort', [], 'outsideLocal'],
    ['LoadBalancer', [], 'outsideLocal'],
  ] as const)(
    'permit a %s Service with external IPs %j to have eTP Local: %s',
    (type, ips, expected) => {
      // Load balancers may do without node ports.
      for (const port of [nodePort, http]) {
        const of = service({ ...external, type, externalIPs: [...ips], ports: [port] });
        expect(pathsAt(resolveOne(of, bothKinds), 'loadBalancerIP')).toBe(expected);
      }
    },
  );

  it('make one frontend of a repeated address: the more powerful kind', () => {
    const of = service({
      type: 'LoadBalancer',
      externalIPs: ['10.96.0.1', '198.51.100.1', '203.0.113.1', '203.0.113.1'],
      loadBalancerIPs: ['198.51.100.1', '10.96.0.1'],
    });
    expect(frontends(resolveOne(of, bothKinds))).toEqual([
      'clusterIP 10.96.0.1:80 inside',
      'loadBalancerIP 198.51.100.1:80 outside',
      'externalIP 203.0.113.1:80 outside',
    ]);
  });
});

describe('the properties that all ports of a Service share', () => {
  const balanced = {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 32000,
    loadBalancerIPs: ['198.51.100.1'],
    ports: [nodePort],
  } as const satisfies Parameters<typeof service>[0];

  it.each([
    ['of an external-local load balancer', {}, 32000],
    ['not with policy Cluster (S37)', { externalTrafficPolicy: 'Cluster' }, 0],
    ['not without type LoadBalancer (S36)', { type: 'NodePort' }, 0],
  ] as const)('include a health check port: %s', (_, fields, expected) => {
    const of = service({ ...balanced, ...fields });
    expect(resolveOne(of, []).healthCheckNodePort).toBe(expected);
  });

  it.each([
    ['all clients when there are none', [], [], false],
    ['the node when they hold its address', ['192.168.0.0/24'], ['192.168.0.0/24'], true],
    ['not the node when they do not', ['192.0.2.0/24'], ['192.0.2.0/24'], false],
    ['all clients when one is of length 0', ['192.0.2.0/24', '1.2.3.4/0'], [], false],
    ['others when the other family allows all', ['192.0.2.0/24', '::/0'], ['192.0.2.0/24'], false],
    ['each once', ['192.0.2.0/24', '192.0.2.255/24'], ['192.0.2.0/24'], false],
  ] as const)('include source ranges that permit %s', (_, ranges, expected, nodeIn) => {
    const of = service({ ...balanced, loadBalancerSourceRanges: [...ranges] });
    const forwarding = resolveOne(of, []);
    expect(forwarding.sourceRanges).toEqual(
      service({ loadBalancerSourceRanges: [...expected] }).loadBalancerSourceRanges,
    );
    expect(forwarding.nodeInSourceRanges).toBe(nodeIn);
  });
});

it.each([
  ['has one port and one slice', 0, service(), [slice({ [a]: ready })]],
  ['has two slices', 1, service(), [slice({ [a]: ready }), slice({ [b]: ready })]],
  ['has two families', 1, service({ clusterIPs: ['10.96.0.1', 'fd00::1'] }), []],
  // Before each port but the first; each 256 names and counts; and between 256 that are indexed.
  ['has 512 ports', 511 + 2 + 2 + 1, service({ ports: portsOf(512) }), []],
])('a Service that %s is resolved with %i rests', (_, rests, of, slices) => {
  expect([...resolveInSteps(of, slices, context)]).toHaveLength(rests);
});
