/** Objects that are strange but real: endpoints that are nodes, wrong ones, very large ones. */
import { clusterIp, NODE_IP, nowhere } from '../lab/addresses.ts';
import {
  clientIpAffinity,
  SERVER_PORT,
  service,
  slice,
  slices,
  settings as standard,
} from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  refused,
  remove,
  reset,
  type Story,
  storyOf,
} from '../lab/story.ts';
import {
  external,
  externalLocal,
  frontends,
  lb,
  NODE_PORT,
  reachable,
  unallocated,
  unknownPort,
  vip,
} from './common.ts';
import { hasOnePool, sharesNoPorts } from './differences.ts';

const { clusterIp: toVip, externalIp, loadBalancer, nodePort } = frontends;
const podA = answered({ 'pod-a': 'node' });
const both = answered({ 'pod-a': 'node', 'pod-b': 'node' });
const other = clusterIp(11);
const toOther = at(other, 80);

const named = (...ports: readonly number[]) => ports.map((port) => ({ name: `p${port}`, port }));
const behindNamed = { ports: [80, 81, 82].map((n) => ({ name: `p${n}`, port: SERVER_PORT })) };

const hostNetwork: readonly Story[] = [
  storyOf('Endpoints may be addresses of nodes: this one and another', '5.5', [
    apply(reachable(), ...slices('web', ['node', 'node2'])),
    connect('pod-a', toVip, answered({ node: 'own', node2: 'own' })),
    connect('client', toVip, answered({ node: 'any', node2: 'node' })),
    connect('node', toVip, answered({ node: 'node', node2: 'node' })),
    connect('client', nodePort, answered({ node: 'any', node2: 'node' })),
    connect('client', loadBalancer, answered({ node: 'any', node2: 'node' })),
  ]),
  storyOf('An endpoint that is an address of the node, with external policy Local', '5.4 5.5', [
    apply(reachable(externalLocal), ...slices('web', ['node', 'node2'])),
    connect('client', loadBalancer, answered({ node: 'own' })),
    connect('client', nodePort, answered({ node: 'own' })),
  ]),
  {
    name: 'With external policy Local the node itself reaches host endpoints of all nodes',
    covers: ['5.4', '5.5'],
    differsIn: hasOnePool,
    steps: [
      apply(reachable(externalLocal), ...slices('web', ['node', 'node2'])),
      connect('node', loadBalancer, answered({ node: 'node', node2: 'node' })),
    ],
  },
  {
    ...storyOf('A Service may have the same port on the node as its endpoint there', '5.9', [
      apply(
        service('web', { ports: [{ port: 80, nodePort: NODE_PORT }] }),
        ...slices('web', ['node'], { ports: [{ port: NODE_PORT }] }),
      ),
      connect('client', at(NODE_IP, NODE_PORT), answered({ node: 'any' })),
      connect('pod-a', toVip, answered({ node: 'own' })),
    ]),
    differsIn: sharesNoPorts,
  },
];

const loopback = { IPv4: '127.0.0.1', IPv6: '::1' } as const;

const invalid: readonly Story[] = [
  {
    name: 'Loopback, link-local, multicast and unspecified endpoints are refused, the rest works',
    covers: ['4.3'],
    servers: [{ actor: 'node', at: at(loopback, 8080) }],
    steps: [
      apply(
        service('web'),
        ...slices('web', [
          { at: loopback },
          { at: { IPv4: '169.254.1.1', IPv6: 'fe80::1' } },
          { at: { IPv4: '224.0.0.1', IPv6: 'ff02::1' } },
          { at: { IPv4: '0.0.0.0', IPv6: '::' } },
          { at: { IPv4: 'no address', IPv6: 'no address' } },
          'pod-a',
        ]),
      ),
      connect('client', toVip, podA),
      connect('node', toVip, podA),
    ],
  },
  {
    name: 'No field of a Service takes loopback addresses from the node, the rest of it works',
    covers: ['5.2', '12.73'],
    servers: [{ actor: 'node', at: at(loopback, 8080) }],
    steps: [
      apply(
        service('thief', { clusterIp: loopback, ports: [{ port: 8080 }] }),
        service('web', { vips: [loopback], externalIps: [loopback], ports: [{ port: 8080 }] }),
        ...['thief', 'web'].flatMap((name) => slices(name, ['pod-a'])),
      ),
      connect('client', at(vip, 8080), podA),
      connect('node', at(loopback, 8080), answered({ node: 'own' })),
    ],
  },
  storyOf('A Service with an unusable ClusterIP is refused, the others work', '5.1', [
    apply(
      service('broken', { spec: { clusterIP: '10.96.0.300', clusterIPs: ['10.96.0.300'] } }),
      service('half', { spec: { clusterIP: other.IPv4, clusterIPs: [other.IPv4, 'x'] } }),
      service('web'),
      ...['broken', 'half', 'web'].flatMap((name) => slices(name, ['pod-a'])),
    ),
    connect('client', toVip, podA),
    connect('client', toOther, podA, { families: ['IPv4'] }),
  ]),
  storyOf('Objects of a wrong shape are refused, the others work', '4.2 4.3', [
    apply(
      service('web'),
      ...slices('web', ['pod-a']),
      { ...service('strange', { clusterIp: other }), spec: 'nothing' },
      { ...slice('IPv4', 'web', [], { suffix: '-x' }), endpoints: 7, ports: { port: 1 } },
      { ...slice('IPv4', 'web', [], { suffix: '-y' }), endpoints: [null, 3, { addresses: [] }] },
    ),
    connect('client', toVip, podA),
  ]),
];

const longest = 'x'.repeat(253);
const manyPorts = Array.from({ length: 2000 }, (_, n) => ({ name: `p${n}`, port: 1000 + n }));
const manyEndpoints = Array.from({ length: 5000 }, (_, n) => ({ at: nowhere(n) }));

/** All addresses, and not by a range of length 0. */
const everybody = ['0.0.0.0/1', '128.0.0.0/1', '::/1', '8000::/1'];

function digitNamed(spec: Record<string, unknown> = {}) {
  return service('1-web', {
    ports: [{ name: '80-tcp', port: 80, nodePort: NODE_PORT }],
    vips: [lb],
    externalIps: [external],
    spec: { loadBalancerSourceRanges: everybody, ...spec },
  });
}

const ofDigitNamed = { ports: [{ name: '80-tcp', port: SERVER_PORT }] };

const names: readonly Story[] = [
  {
    name: 'The name of a Service may begin with a digit, with affinity and source ranges too',
    covers: ['4.3', '5.2'],
    steps: [
      apply(digitNamed(), ...slices('1-web', [], ofDigitNamed)),
      connect('client', toVip, refused),
      apply(...slices('1-web', ['pod-a', 'pod-b'], ofDigitNamed)),
      ...[toVip, nodePort, loadBalancer, externalIp].map((to) => connect('client', to, both)),
      apply(digitNamed(clientIpAffinity(60)), ...slices('1-web', ['pod-a'], ofDigitNamed)),
      ...[toVip, nodePort, loadBalancer, externalIp].map((to) => connect('client', to, podA)),
      remove(digitNamed()),
      connect('client', toVip, unallocated),
    ],
  },
];

const large: readonly Story[] = [
  storyOf('Names of 253 characters work', '12.50', [
    apply(
      service(longest, { ports: [{ name: 'y'.repeat(253), port: 80 }] }),
      ...slices(longest, ['pod-a'], { ports: [{ name: 'y'.repeat(253), port: 8080 }] }),
    ),
    connect('client', toVip, podA),
    apply(...slices(longest, [], { ports: [{ name: 'y'.repeat(253), port: 8080 }] })),
    connect('client', toVip, refused),
    remove(service(longest)),
    connect('client', toVip, unallocated),
  ]),
  storyOf('A Service may have 2,000 ports', '5.2', [
    apply(
      service('web', { ports: manyPorts }),
      ...slices('web', ['pod-b'], {
        ports: manyPorts.map(({ name, port }) => ({ name, port: port + 2000 })),
      }),
    ),
    ...[0, 1000, 1999].map((n) =>
      connect('client', at(vip, 1000 + n), answered({ [`pod-b:${3000 + n}`]: 'node' }), {
        connections: 1,
      }),
    ),
    connect('client', at(vip, 3000), unknownPort),
  ]),
  {
    ...storyOf('Of a Service with more ports than one Service gets, the first are served', '5.1', [
      apply(service('web', { ports: named(80, 81, 82) }), ...slices('web', ['pod-a'], behindNamed)),
      connect('client', at(vip, 80), answered({ 'pod-a': 'node' })),
      connect('client', at(vip, 81), answered({ 'pod-a': 'node' })),
      connect('pod-b', at(vip, 82), unknownPort),
      apply(service('web', { ports: named(81, 82) })),
      connect('client', at(vip, 81), answered({ 'pod-a': 'node' })),
      connect('client', at(vip, 82), answered({ 'pod-a': 'node' })),
      connect('pod-b', at(vip, 80), unknownPort),
    ]),
    settings: {
      ...standard,
      serviceLimits: { frontends: 2 },
    },
  },
  {
    name: 'Services that ask for more than their namespace gets have equal shares, the first ports',
    covers: ['5.1'],
    settings: {
      ...standard,
      serviceLimits: { frontends: 4, namespaceFactor: 1 },
    },
    steps: [
      apply(service('web', { ports: named(80, 81, 82) }), ...slices('web', ['pod-a'], behindNamed)),
      connect('client', at(vip, 82), answered({ 'pod-a': 'node' })),
      apply(
        service('other', { clusterIp: other, ports: named(80, 81, 82) }),
        ...slices('other', ['pod-b'], behindNamed),
      ),
      connect('client', at(vip, 81), answered({ 'pod-a': 'node' })),
      connect('client', at(other, 81), answered({ 'pod-b': 'node' })),
      connect('pod-b', at(vip, 82), unknownPort),
      connect('pod-a', at(other, 82), unknownPort),
    ],
  },
  storyOf('A Service may have 5,000 endpoints', '5.3', [
    apply(
      service('web'),
      ...slices('web', ['pod-a']),
      ...slices('web', manyEndpoints, { suffix: '-many' }),
    ),
    connect('client', toVip, reset, { connections: 1 }),
    apply(...slices('web', ['pod-a', 'pod-b']), ...slices('web', [], { suffix: '-many' })),
    connect('client', toVip, both),
  ]),
];

export const unusualStories: readonly Story[] = [...hostNetwork, ...invalid, ...names, ...large];
