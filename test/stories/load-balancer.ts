/** Load-balancer addresses and their source ranges (behaviour document 5.2, 5.7). */
import { CLIENT_OTHER_IP, lbVip, NODE_IP, NODE_SECOND_IP } from '../lab/addresses.ts';
import {
  clientIpAffinity,
  joined,
  type KubernetesObject,
  node,
  service,
  slices,
} from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  open as openFlow,
  refused,
  remove,
  resume,
  type Story,
  silence,
  storyOf,
} from '../lab/story.ts';
import {
  externalLocal,
  fromOutside,
  frontends,
  lb,
  NODE_PORT,
  reachable,
  unprogrammed,
} from './common.ts';
import { firewallNeedsEndpoints, forgetsTheNodeItself } from './differences.ts';

const toLb = frontends.loadBalancer;
const podA = answered({ 'pod-a': 'node' });
const podB = answered({ 'pod-b': 'node' });
const ports = [{ port: 80, nodePort: NODE_PORT }];
const second = lbVip(2);

const ingress: readonly Story[] = [
  {
    name: 'A load balancer with several addresses answers on each, to everyone, masqueraded',
    covers: ['5.2', '5.5'],
    steps: [
      apply(service('web', { vips: [lb, second] }), ...slices('web', ['pod-a', 'pod-c'])),
      connect('client', toLb, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      connect('client', at(second, 80), answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      connect('pod-b', toLb, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      connect('node', at(second, 80), answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      connect('node2', toLb, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
    ],
  },
  storyOf('A load-balancer address comes and goes; node port and ClusterIP stay', '5.2 12.36', [
    apply(service('web', { ports }), ...slices('web', ['pod-a'])),
    connect('client', toLb, unprogrammed),
    apply(service('web', { ports, vips: [lb] })),
    connect('client', toLb, podA),
    connect('client', frontends.nodePort, podA),
    apply(service('web', { ports, vips: [second] })),
    connect('client', toLb, unprogrammed),
    connect('client', at(second, 80), podA),
    apply(service('web')),
    connect('client', at(second, 80), unprogrammed),
    connect('client', frontends.clusterIp, podA),
  ]),
  {
    name: 'ipMode Proxy leaves the address to the load balancer; node port and ClusterIP stay',
    covers: ['5.2', '12.34'],
    steps: [
      apply(service('web', { ports, vips: [lb], ipMode: 'Proxy' }), ...slices('web', ['pod-a'])),
      connect('client', toLb, unprogrammed),
      connect('pod-b', toLb, unprogrammed),
      connect('client', frontends.nodePort, podA),
      connect('pod-b', frontends.clusterIp, answered({ 'pod-a': 'own' })),
      apply(service('web', { ports, vips: [lb], ipMode: 'VIP' })),
      connect('client', toLb, podA),
      connect('pod-b', toLb, podA),
    ],
  },
  storyOf('An ingress that has only a host name does no harm', '5.2', [
    apply(
      {
        ...service('web', { ports, vips: [] }),
        status: { loadBalancer: { ingress: [{ hostname: 'lb.example' }, { ip: lb.IPv4 }] } },
      },
      ...slices('web', ['pod-a']),
    ),
    connect('client', toLb, podA, { families: ['IPv4'] }),
    connect('client', frontends.nodePort, podA),
  ]),
  {
    ...storyOf("A load-balancer address may be the node's own", '5.2', [
      apply(service('web', { vips: [NODE_IP] }), ...slices('web', ['pod-a'])),
      connect('client', at(NODE_IP, 80), podA),
      connect('pod-b', at(NODE_IP, 80), podA),
      connect('node', at(NODE_IP, 80), podA),
      connect('client', at(NODE_IP, 81), answered({ node: 'own' })),
      apply(...slices('web', [])),
      connect('client', at(NODE_IP, 80), refused),
      connect('node', at(NODE_IP, 80), refused),
    ]),
    servers: [{ actor: 'node', at: at(NODE_IP, 81) }],
  },
  {
    ...storyOf('A load balancer without endpoints refuses everyone', '5.4', [
      apply(reachable()),
      connect('client', toLb, refused),
      connect('pod-a', toLb, refused),
      connect('node', toLb, refused),
    ]),
    differsIn: forgetsTheNodeItself,
  },
];

/** Holds the client's first address, not its second. */
const CLIENTS = ['198.51.100.0/28', '2001:db8:51::/123'];
const OTHER_CLIENTS = ['198.51.100.16/28', '2001:db8:51::20/123'];
const NODES = ['192.168.10.0/24', 'fd00:10::/64'];
const PODS = joined({ IPv4: '10.244.1.0/24', IPv6: 'fd00:244:1::/64' }).split(',');
const other = { from: { addresses: CLIENT_OTHER_IP } };

function open(...loadBalancerSourceRanges: readonly string[]) {
  return reachable({ loadBalancerSourceRanges });
}

/** The same, with the annotation: the ranges, and further fields of spec. */
function guardingAll(...given: readonly (string | Record<string, unknown>)[]): KubernetesObject {
  const ranges = given.filter((one) => typeof one === 'string');
  const fields = given.filter((one) => typeof one !== 'string');
  const object = reachable(Object.assign({ loadBalancerSourceRanges: ranges }, ...fields));
  const annotations = { 'fairlead.io/source-ranges': 'all' };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

/** The same at two addresses. */
function two(...loadBalancerSourceRanges: readonly string[]) {
  return service('web', { vips: [lb, second], spec: { loadBalancerSourceRanges } });
}

/** A number of ranges of each family without clients; `round` selects others. */
function manyRanges(count: number, round: number): string[] {
  return Array.from({ length: count }, (_, i) => [
    `20.${round}.${i >> 7}.${(i & 127) * 2}/32`,
    `2001:db8:${round}:${i.toString(16)}::/64`,
  ]).flat();
}

/** Ranges that begin with the first address, or end with the last one. */
const edges = [
  ...['0.0.0.0/1', '128.0.0.0/2', '198.51.100.0/28', '255.255.255.254/31'],
  ...['::/2', '8000::/1'],
];
/** Unused addresses, none next to another or to `edges`. */
const apart = Array.from({ length: 12 }, (_, i) => [
  `240.0.0.${2 * i}/32`,
  `4000::${(2 * i + 16).toString(16)}/128`,
]).flat();

const shopIp = { IPv4: '10.96.0.11', IPv6: 'fd00:96::b' };

/** A second Service, with these ranges. */
function shop(...loadBalancerSourceRanges: readonly string[]) {
  const spec = { loadBalancerSourceRanges };
  return service('shop', { clusterIp: shopIp, ports: [{ port: 80 }], vips: [second], spec });
}

const sourceRanges: readonly Story[] = [
  {
    name: 'Source ranges are replaced by the thousand while a client downloads and others connect',
    covers: ['5.7'],
    steps: [
      apply(open(...CLIENTS, ...manyRanges(500, 1)), ...slices('web', ['pod-a'])),
      openFlow('download', 'client', toLb, podA, { download: 'endless' }),
      connect('client', toLb, silence, other),
      ...[2, 3, 4].flatMap((round) => [
        apply(open(...manyRanges(500, round), ...CLIENTS)),
        connect('client', toLb, podA),
      ]),
      connect('client', toLb, silence, other),
      apply(open(...manyRanges(500, 5), ...OTHER_CLIENTS)),
      connect('client', toLb, podA, other),
      connect('client', toLb, silence),
      resume('download', podA),
    ],
  },
  {
    name: 'Services with the same source ranges keep theirs when one of them changes or goes',
    covers: ['5.7'],
    steps: [
      apply(
        open(...CLIENTS, ...PODS),
        shop(...PODS, ...CLIENTS, ...CLIENTS),
        ...slices('web', ['pod-a']),
        ...slices('shop', ['pod-b']),
      ),
      connect('client', toLb, podA),
      connect('client', at(second, 80), podB),
      apply(open(...OTHER_CLIENTS)),
      connect('client', toLb, silence),
      connect('client', toLb, podA, other),
      connect('client', at(second, 80), podB),
      connect('client', at(second, 80), silence, other),
      apply(open(...CLIENTS, ...PODS)),
      remove(shop()),
      connect('client', toLb, podA),
      connect('client', toLb, silence, other),
      apply(shop(...CLIENTS, ...PODS)),
      connect('client', at(second, 80), podB),
      connect('client', at(second, 80), silence, other),
    ],
  },
  storyOf('Source ranges up to the first and the last address hold these', '5.7 12.33', [
    // Few are rules, many are a set.
    ...[edges, [...edges, ...apart]].flatMap((ranges) => [
      apply(open(...ranges), ...slices('web', ['pod-a'])),
      connect('client', toLb, podA, { families: ['IPv4'] }),
      connect('client', toLb, silence, { ...other, families: ['IPv4'] }),
      connect('pod-b', toLb, podA, { families: ['IPv4'] }),
      connect('client', toLb, podA, { families: ['IPv6'] }),
      connect('pod-b', toLb, podA, { families: ['IPv6'] }),
    ]),
    apply(open('0.0.0.0/1', '128.0.0.0/1', '::/1', '8000::/1')),
    connect('client', toLb, podA),
    connect('client', toLb, podA, other),
  ]),
  storyOf('Source ranges admit only their clients: not pods, not the node', '5.7 12.41', [
    apply(open(...CLIENTS), ...slices('web', ['pod-a'])),
    connect('client', toLb, podA),
    connect('client', toLb, silence, other),
    connect('pod-b', toLb, silence),
    connect('node', toLb, silence),
    connect('node2', toLb, silence),
  ]),
  {
    name: 'Source ranges hold for load-balancer addresses only, not for other frontends',
    covers: ['5.7', '12.41', '12.67'],
    steps: [
      apply(open(...CLIENTS), ...slices('web', ['pod-a'])),
      ...[...fromOutside, frontends.clusterIp]
        .filter((target) => target !== toLb)
        .map((target) => connect('client', target, podA, other)),
    ],
  },
  {
    name: 'Source ranges hold for node ports and external IPs, too, where the Service says so',
    covers: ['5.7'],
    steps: [
      apply(guardingAll(...CLIENTS), ...slices('web', ['pod-a'])),
      ...fromOutside.flatMap((to) => [
        connect('client', to, podA),
        connect('client', to, silence, other),
        connect('pod-b', to, silence),
        connect('node', to, silence),
        connect('node2', to, silence),
      ]),
      connect('pod-b', frontends.clusterIp, answered({ 'pod-a': 'own' })),
      apply(guardingAll(...PODS, ...NODES)),
      ...fromOutside.flatMap((to) => [
        connect('client', to, silence),
        connect('pod-b', to, podA),
        connect('pod-a', to, podA),
        connect('node', to, podA),
        connect('node2', to, podA),
      ]),
      apply(open(...CLIENTS)),
      connect('client', frontends.nodePort, podA, other),
      connect('client', frontends.externalIp, podA, other),
      connect('client', toLb, silence, other),
    ],
  },
  {
    name: 'Source ranges at a node port end what session affinity remembers, and spare its neighbours',
    covers: ['5.7', '5.8'],
    servers: [{ actor: 'node', at: at(NODE_IP, NODE_PORT + 1) }],
    steps: [
      apply(
        guardingAll(...CLIENTS, ...OTHER_CLIENTS, { ...clientIpAffinity(60), ...externalLocal }),
        ...slices('web', ['pod-a']),
      ),
      connect('client', frontends.nodePort, answered({ 'pod-a': 'own' })),
      connect('client', frontends.nodePort, answered({ 'pod-a': 'own' }), other),
      apply(guardingAll(...CLIENTS, { ...clientIpAffinity(60), ...externalLocal })),
      connect('client', frontends.nodePort, answered({ 'pod-a': 'own' })),
      connect('client', frontends.nodePort, silence, other),
      connect('client', at(NODE_IP, NODE_PORT + 1), answered({ node: 'own' }), other),
    ],
  },
  storyOf('Pods and nodes within the source ranges are let in', '5.7', [
    apply(open(...PODS, ...NODES), ...slices('web', ['pod-a'])),
    connect('pod-b', toLb, podA),
    connect('node', toLb, podA),
    connect('node2', toLb, podA),
    connect('client', toLb, silence),
  ]),
  storyOf('A source range of length 0 lets everyone in, whatever else is listed', '5.2 5.7', [
    apply(open(...CLIENTS, '0.0.0.0/0', '::/0'), ...slices('web', ['pod-a'])),
    connect('client', toLb, podA),
    connect('client', toLb, podA, other),
    connect('pod-b', toLb, podA),
  ]),
  storyOf('Source ranges of one family leave the other family open', '5.2 12.32', [
    apply(open('198.51.100.0/28'), ...slices('web', ['pod-a'])),
    connect('client', toLb, silence, { ...other, families: ['IPv4'] }),
    connect('client', toLb, podA, { ...other, families: ['IPv6'] }),
  ]),
  storyOf('Source ranges may overlap, touch, repeat and be written carelessly', '5.2 12.33', [
    apply(
      open(
        ' 198.51.100.0/29',
        '198.51.100.8/29 ',
        '198.051.100.010/32',
        '198.51.100.0/28',
        '2001:db8:51:0::/124',
        '2001:DB8:51::10/124',
        '2001:db8:51::/125',
      ),
      ...slices('web', ['pod-a']),
    ),
    connect('client', toLb, podA),
    connect('client', toLb, silence, other),
  ]),
  {
    name: 'Source ranges that change are in force immediately, and end when they are removed',
    covers: ['5.7'],
    steps: [
      apply(open(...CLIENTS), ...slices('web', ['pod-a'])),
      connect('client', toLb, silence, other),
      apply(open(...CLIENTS, ...OTHER_CLIENTS)),
      connect('client', toLb, podA),
      connect('client', toLb, podA, other),
      apply(open(...OTHER_CLIENTS)),
      connect('client', toLb, silence),
      connect('client', toLb, podA, other),
      apply(reachable()),
      connect('client', toLb, podA),
    ],
  },
  {
    name: 'Clients outside the source ranges hear nothing even where there are no endpoints',
    covers: ['6.7', '12.44'],
    differsIn: firewallNeedsEndpoints,
    steps: [
      apply(open(...CLIENTS)),
      connect('client', toLb, refused),
      connect('client', toLb, silence, other),
    ],
  },
  {
    name: 'A node that has the load-balancer address itself may use it as source, if it is in range',
    covers: ['5.7', '12.42'],
    nodeAddresses: [lb],
    steps: [
      apply(open(...CLIENTS, ...NODES), ...slices('web', ['pod-a', 'pod-c'])),
      connect('node', toLb, answered({ 'pod-a': 'node', 'pod-c': 'node' }), {
        from: { addresses: lb },
      }),
      connect('client', toLb, silence, other),
      apply(open(...CLIENTS)),
      connect('node', toLb, silence, { from: { addresses: lb } }),
      connect('client', toLb, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
    ],
  },
  {
    name: 'A node that has two load-balancer addresses of a Service may connect from one to the other',
    covers: ['5.7', '12.42'],
    nodeAddresses: [lb, second],
    steps: [
      apply(two(...CLIENTS, ...NODES), ...slices('web', ['pod-a'])),
      connect('node', toLb, podA, { from: { addresses: second } }),
      connect('node', at(second, 80), podA, { from: { addresses: lb } }),
      apply(two(...CLIENTS)),
      connect('node', toLb, silence, { from: { addresses: second } }),
    ],
  },
  {
    name: 'Whether the node is within the source ranges is decided again when its address changes',
    covers: ['5.7'],
    nodeAddresses: [lb],
    steps: [
      apply(open(...NODES), ...slices('web', ['pod-a'])),
      connect('node', toLb, podA, { from: { addresses: lb } }),
      apply(node({ addresses: NODE_SECOND_IP })),
      connect('node', toLb, silence, { from: { addresses: lb } }),
      connect('node', toLb, podA, { from: { addresses: NODE_IP } }),
    ],
  },
  storyOf('Source ranges hold on every address and port of the Service, and of no other', '5.7', [
    apply(
      service('web', {
        ports: [
          { name: 'http', port: 80 },
          { name: 'dns', port: 53, protocol: 'UDP' },
        ],
        vips: [lb, second],
        spec: { loadBalancerSourceRanges: CLIENTS },
      }),
      service('shop', {
        clusterIp: { IPv4: '10.96.0.11', IPv6: 'fd00:96::b' },
        ports: [{ port: 81 }],
        vips: [lb],
      }),
      ...slices('web', ['pod-a'], {
        ports: [
          { name: 'http', port: 8080 },
          { name: 'dns', port: 5353, protocol: 'UDP' },
        ],
      }),
      ...slices('shop', ['pod-b']),
    ),
    connect('client', at(second, 80), silence, other),
    connect('client', at(lb, 53, 'UDP'), silence, other),
    connect('client', at(lb, 53, 'UDP'), podA),
    connect('client', at(lb, 81), answered({ 'pod-b': 'node' }), other),
  ]),
];

export const loadBalancerStories: readonly Story[] = [...ingress, ...sourceRanges];
