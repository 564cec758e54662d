/** spec.externalIPs (behaviour document 5.2). */
import {
  clusterIp,
  externalIp,
  NODE_IP,
  NODE_SECOND_IP,
  NODE2_IP,
  SECOND_NODE_NAME,
} from '../lab/addresses.ts';
import { inNamespace, service, slices } from '../lab/objects.ts';
import { answered, apply, at, connect, refused, type Story, storyOf } from '../lab/story.ts';
import { external, externalLocal, lb, NODE_PORT, unprogrammed } from './common.ts';
import { bindsAddresses, forgetsTheNodeItself } from './differences.ts';

const second = externalIp(2);
const other = clusterIp(11);
const to = at(external, 80);
const both = answered({ 'pod-a': 'node', 'pod-c': 'node' });
const podA = answered({ 'pod-a': 'node' });

export const externalIpStories: readonly Story[] = [
  {
    name: 'External IPs lead to the Service, whatever its type, for everyone, masqueraded',
    covers: ['5.2', '5.5'],
    steps: [
      apply(
        service('web', { externalIps: [external, second] }),
        ...slices('web', ['pod-a', 'pod-c']),
      ),
      connect('client', to, both),
      connect('client', at(second, 80), both),
      connect('pod-b', to, both),
      connect('node', to, both),
      connect('node2', to, both),
    ],
  },
  {
    ...storyOf('An external IP has the ports of its Service and no others', '5.2 6.7', [
      apply(service('web', { externalIps: [external] }), ...slices('web', ['pod-a'])),
      connect('client', to, podA),
      connect('client', at(external, 81), unprogrammed),
      apply(service('web')),
      connect('client', to, unprogrammed),
    ]),
    differsIn: bindsAddresses,
  },
  {
    ...storyOf('An external IP without endpoints refuses everyone', '5.4 12.74', [
      apply(service('web', { externalIps: [external] })),
      connect('client', to, refused),
      connect('pod-a', to, refused),
      connect('node', to, refused),
    ]),
    differsIn: forgetsTheNodeItself,
  },
  storyOf('External IPs that are not addresses are left out; the others work', '5.2 12.73', [
    apply(
      service('web', {
        spec: { externalIPs: ['', 'example.org', external.IPv4, '300.1.1.1', external.IPv6] },
      }),
      ...slices('web', ['pod-a']),
    ),
    connect('client', to, podA),
  ]),
  {
    name: 'An external IP may be an address of the node; its other ports stay what they were',
    covers: ['5.2'],
    servers: [{ actor: 'node', at: at(NODE_SECOND_IP, 81) }],
    steps: [
      apply(service('web', { externalIps: [NODE_SECOND_IP] }), ...slices('web', ['pod-a'])),
      connect('client', at(NODE_SECOND_IP, 80), podA),
      connect('node', at(NODE_SECOND_IP, 80), podA),
      connect('client', at(NODE_SECOND_IP, 81), answered({ node: 'own' })),
    ],
  },
  {
    name: 'An external IP leaves a port of the node to the program that listens on it',
    covers: ['5.2'],
    servers: [
      { actor: 'node', at: at(NODE_IP, 81) },
      { actor: 'node', at: at(NODE_IP, 82, 'UDP') },
    ],
    steps: [
      apply(
        service('web', {
          externalIps: [NODE_IP],
          ports: [{ port: 80 }, { name: 'b', port: 81 }, { name: 'c', port: 82, protocol: 'UDP' }],
        }),
        ...slices('web', ['pod-a'], {
          ports: [
            { port: 8080 },
            { name: 'b', port: 8080 },
            { name: 'c', port: 8080, protocol: 'UDP' },
          ],
        }),
      ),
      connect('client', at(NODE_IP, 80), podA),
      connect('client', at(NODE_IP, 81), answered({ node: 'own' })),
      connect('pod-b', at(NODE_IP, 81), answered({ node: 'own' })),
      connect('client', at(NODE_IP, 82, 'UDP'), answered({ node: 'own' })),
    ],
  },
  {
    name: 'An external IP that is another node takes nothing but its port from that node',
    covers: ['5.2'],
    servers: [
      { actor: 'node', at: at(NODE_IP, 81) },
      { actor: 'node2', at: at(NODE2_IP, 81) },
    ],
    steps: [
      apply(
        ...inNamespace('kube-system', [
          service('agent', { clusterIp: other }),
          ...slices('agent', ['node2']),
        ]),
        service('web', { externalIps: [NODE2_IP] }),
        ...slices('web', ['pod-a']),
      ),
      connect('node2', at(NODE_IP, 81), answered({ node: 'own' })),
      connect('node', at(NODE2_IP, 81), answered({ node2: 'own' })),
      connect('pod-a', at(NODE2_IP, 81), answered({ node2: 'own' })),
    ],
  },
  storyOf('An external IP is served whatever EndpointSlices of tenants say of its address', '5.2', [
    apply(
      service('a-thief', { clusterIp: other }),
      ...slices('a-thief', [{ at: external, nodeName: SECOND_NODE_NAME }]),
      service('web', { externalIps: [external] }),
      ...slices('web', ['pod-a']),
    ),
    connect('client', to, podA),
    connect('pod-b', to, podA),
  ]),
  {
    name: 'An external IP takes no node port from another Service at an address of the node',
    covers: ['5.2'],
    steps: [
      apply(
        service('a-thief', { externalIps: [NODE_IP], ports: [{ port: NODE_PORT }] }),
        ...slices('a-thief', ['pod-b']),
      ),
      connect('client', at(NODE_IP, NODE_PORT), answered({ 'pod-b': 'node' })),
      apply(
        service('web', { clusterIp: other, ports: [{ port: 80, nodePort: NODE_PORT }] }),
        ...slices('web', ['pod-a']),
      ),
      connect('client', at(NODE_IP, NODE_PORT), podA),
      connect('pod-b', at(NODE_IP, NODE_PORT), podA),
      apply(service('web', { clusterIp: other })),
      connect('client', at(NODE_IP, NODE_PORT), answered({ 'pod-b': 'node' })),
    ],
  },
  storyOf('Nor does the load balancer of another Service that gives addresses of nodes', '5.2', [
    apply(
      service('a-thief', {
        vips: [NODE_IP],
        ports: [{ port: NODE_PORT }, { name: 'b', port: 81 }],
      }),
      service('web', { clusterIp: other, ports: [{ port: 80, nodePort: NODE_PORT }] }),
      ...slices('a-thief', ['pod-b'], { ports: [{ port: 8080 }, { name: 'b', port: 8080 }] }),
      ...slices('web', ['pod-a']),
    ),
    connect('client', at(NODE_IP, NODE_PORT), podA),
    connect('client', at(NODE_IP, 81), answered({ 'pod-b': 'node' })),
  ]),
  storyOf('An external IP takes no load-balancer address from another Service', '5.2', [
    apply(service('a-thief', { externalIps: [lb] }), ...slices('a-thief', ['pod-b'])),
    connect('client', at(lb, 80), answered({ 'pod-b': 'node' })),
    apply(service('web', { clusterIp: other, vips: [lb] }), ...slices('web', ['pod-a'])),
    connect('client', at(lb, 80), podA),
    connect('pod-b', at(lb, 80), podA),
  ]),
  {
    name: 'A Service of type ClusterIP with external IPs heeds externalTrafficPolicy Local',
    covers: ['5.2'],
    steps: [
      apply(
        service('web', { externalIps: [external], spec: externalLocal }),
        ...slices('web', ['pod-a', 'pod-c']),
      ),
      connect('client', to, answered({ 'pod-a': 'own' })),
      connect('node2', to, answered({ 'pod-a': 'own' })),
    ],
  },
];
