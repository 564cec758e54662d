/** Each family is resolved by itself (behaviour document 5.1, 3.2). */
import { clusterIp, NODE_IP, NODE_SECOND_IP } from '../lab/addresses.ts';
import { node, service, slice, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  open,
  refused,
  reset,
  resume,
  type Story,
  silence,
  storyOf,
} from '../lab/story.ts';
import {
  external,
  externalLocal,
  frontends,
  internalLocal,
  lb,
  NODE_PORT,
  reachable,
  unallocated,
  unprogrammed,
  vip,
} from './common.ts';
import { keepsAddressesForConnections } from './differences.ts';

const { clusterIp: toVip, loadBalancer, nodePort, externalIp } = frontends;
const ports = [{ port: 80, nodePort: NODE_PORT }];
const v4 = { families: ['IPv4'] } as const;
const v6 = { families: ['IPv6'] } as const;
const podA = answered({ 'pod-a': 'node' });

export const dualStackStories: readonly Story[] = [
  storyOf('A dual-stack Service answers in both families, whichever comes first', '5.1', [
    apply(
      service('web', {
        ports,
        spec: {
          clusterIP: vip.IPv6,
          clusterIPs: [vip.IPv6, vip.IPv4],
          ipFamilies: ['IPv6', 'IPv4'],
          ipFamilyPolicy: 'PreferDualStack',
        },
      }),
      ...slices('web', ['pod-a']),
    ),
    connect('client', toVip, podA),
    connect('client', nodePort, podA),
  ]),
  {
    name: 'A single-stack IPv4 Service exists in IPv4 only, node port included',
    covers: ['5.1', '12.31', '12.71'],
    steps: [
      apply(
        service('web', { clusterIp: { IPv4: vip.IPv4 }, ports }),
        slice('IPv4', 'web', ['pod-a']),
      ),
      connect('client', toVip, podA, v4),
      connect('client', toVip, unallocated, v6),
      connect('client', nodePort, podA, v4),
      connect('client', nodePort, reset, v6),
    ],
  },
  storyOf('A single-stack IPv6 Service exists in IPv6 only, node port included', '5.1 12.31', [
    apply(
      service('web', { clusterIp: { IPv6: vip.IPv6 }, ports }),
      slice('IPv6', 'web', ['pod-a']),
    ),
    connect('client', toVip, podA, v6),
    connect('client', toVip, unallocated, v4),
    connect('client', nodePort, podA, v6),
    connect('client', nodePort, reset, v4),
  ]),
  storyOf('A family without endpoints is refused while the other is served', '5.3 5.4', [
    apply(reachable(), slice('IPv4', 'web', ['pod-a'])),
    connect('client', toVip, podA, v4),
    connect('client', toVip, refused, v6),
    connect('client', nodePort, refused, v6),
    apply(slice('IPv4', 'web', []), slice('IPv6', 'web', ['pod-b'])),
    connect('client', toVip, refused, v4),
    connect('client', toVip, answered({ 'pod-b': 'node' }), v6),
  ]),
  storyOf('Policy Local is judged in each family by itself', '5.3 5.4', [
    apply(
      reachable({ ...internalLocal, ...externalLocal }),
      slice('IPv4', 'web', ['pod-a', 'pod-c']),
      slice('IPv6', 'web', ['pod-c']),
    ),
    connect('client', loadBalancer, answered({ 'pod-a': 'own' }), v4),
    connect('client', loadBalancer, silence, v6),
    connect('pod-b', toVip, answered({ 'pod-a': 'own' }), v4),
    connect('pod-b', toVip, silence, v6),
  ]),
  {
    ...storyOf('A Service becomes dual-stack and single-stack again while it lives', '5.1', [
      apply(service('web', { clusterIp: { IPv4: vip.IPv4 } }), ...slices('web', ['pod-a'])),
      connect('client', toVip, unallocated, v6),
      open('kept', 'client', toVip, podA, v4),
      apply(service('web')),
      connect('client', toVip, podA),
      apply(service('web', { clusterIp: { IPv4: vip.IPv4 } })),
      connect('client', toVip, unallocated, v6),
      resume('kept', podA),
    ]),
    differsIn: keepsAddressesForConnections,
  },
  storyOf('An old Service without ipFamilies has the family of its ClusterIP', '5.1 12.31', [
    apply(
      `
        apiVersion: v1
        kind: Service
        metadata: { name: web, namespace: default }
        spec: { type: ClusterIP, clusterIP: 10.96.0.10, ports: [{ port: 80 }] }
        `,
      ...slices('web', ['pod-a']),
    ),
    connect('client', toVip, podA, v4),
    connect('client', toVip, unallocated, v6),
  ]),
  {
    name: 'External addresses of a family that the Service does not have are left out',
    covers: ['5.2', '12.32', '12.73'],
    steps: [
      apply(
        service('web', {
          clusterIp: { IPv4: vip.IPv4 },
          vips: [lb],
          externalIps: [external],
        }),
        ...slices('web', ['pod-a']),
      ),
      connect('client', loadBalancer, podA, v4),
      connect('client', loadBalancer, unprogrammed, v6),
      connect('client', externalIp, podA, v4),
      connect('client', externalIp, unprogrammed, v6),
    ],
  },
  {
    ...storyOf('A node that has only IPv6 addresses serves IPv6', '3.2 3.3', [
      apply(
        node({ addresses: { IPv6: NODE_IP.IPv6 } }),
        service('web', { clusterIp: { IPv6: vip.IPv6 }, ports }),
        slice('IPv6', 'web', ['pod-a', 'pod-b']),
      ),
      connect('pod-b', toVip, answered({ 'pod-a': 'own', 'pod-b': 'node' })),
      connect('client', nodePort, answered({ 'pod-a': 'node', 'pod-b': 'node' })),
      connect('client', at(NODE_SECOND_IP, NODE_PORT), reset),
      connect('client', at(clusterIp(99), 80), unallocated),
    ]),
    families: ['IPv6'],
    settings: { detectLocalMode: 'ClusterCIDR', nodePortAddresses: ['primary'] },
  },
];
