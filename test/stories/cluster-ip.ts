/** ClusterIPs: who gets through, to whom, and who is refused (behaviour document 5.4, 6.8). */
import { CLIENT_OTHER_IP, clusterIp, NODE_BRIDGE_IP, NODE_IP } from '../lab/addresses.ts';
import { service, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  refused,
  remove,
  type Story,
  storyOf,
  unreachable,
} from '../lab/story.ts';
import { frontends, unallocated, unknownPort, vip } from './common.ts';
import { leavesUnknownPorts } from './differences.ts';

const port = frontends.clusterIp;
const others = clusterIp(11);

const choice: readonly Story[] = [
  storyOf('A ClusterIP leads to every ready endpoint, on this node and on others', '5.4 5.5', [
    apply(service('web'), ...slices('web', ['pod-a', 'pod-b', 'pod-c'])),
    connect('pod-a', port, answered({ 'pod-a': 'node', 'pod-b': 'own', 'pod-c': 'own' })),
    connect('client', port, answered({ 'pod-a': 'node', 'pod-b': 'node', 'pod-c': 'node' })),
  ]),
  {
    name: 'The node itself reaches a ClusterIP, seen with the address that faces the endpoint',
    covers: ['5.5', '6.8'],
    steps: [
      apply(service('web'), ...slices('web', ['pod-a', 'pod-c'])),
      connect('node', port, answered({ 'pod-a': NODE_BRIDGE_IP, 'pod-c': NODE_IP })),
    ],
  },
  storyOf('A pod of another node reaches a ClusterIP through this node', '5.5', [
    apply(service('web'), ...slices('web', ['pod-a', 'pod-b'])),
    connect('pod-c', port, answered({ 'pod-a': 'own', 'pod-b': 'own' })),
  ]),
  storyOf('Endpoints that are not ready get nothing until they are', '5.3', [
    apply(service('web'), ...slices('web', ['pod-a', { at: 'pod-b', ready: false }])),
    connect('client', port, answered({ 'pod-a': 'node' })),
    apply(...slices('web', ['pod-a', 'pod-b'])),
    connect('client', port, answered({ 'pod-a': 'node', 'pod-b': 'node' })),
    apply(...slices('web', [{ at: 'pod-a', ready: false }, 'pod-b'])),
    connect('client', port, answered({ 'pod-b': 'node' })),
  ]),
  storyOf('Each port of a Service has its own endpoints, by name', '5.1 4.3', [
    apply(
      service('web', {
        ports: [
          { name: 'http', port: 80 },
          { name: 'admin', port: 81 },
        ],
      }),
      ...slices('web', ['pod-a'], { ports: [{ name: 'http', port: 8080 }] }),
      ...slices('web', ['pod-b'], { ports: [{ name: 'admin', port: 9090 }], suffix: '-admin' }),
    ),
    connect('client', at(vip, 80), answered({ 'pod-a:8080': 'node' })),
    connect('client', at(vip, 81), answered({ 'pod-b:9090': 'node' })),
  ]),
  {
    name: 'Endpoints come and go while a Service lives, from none to many and back',
    covers: ['4.3', '12.47', '12.68'],
    steps: [
      apply(service('web'), ...slices('web', [])),
      connect('client', port, refused),
      apply(...slices('web', ['pod-a'])),
      connect('client', port, answered({ 'pod-a': 'node' })),
      apply(...slices('web', ['pod-a', 'pod-b', 'pod-c'])),
      connect('client', port, answered({ 'pod-a': 'node', 'pod-b': 'node', 'pod-c': 'node' })),
      apply(...slices('web', ['pod-c', 'pod-b'])),
      connect('client', port, answered({ 'pod-b': 'node', 'pod-c': 'node' })),
      apply(...slices('web', [])),
      connect('client', port, refused),
      apply(...slices('web', ['pod-b'])),
      connect('client', port, answered({ 'pod-b': 'node' })),
    ],
  },
];

const refusals: readonly Story[] = [
  {
    name: 'A Service without endpoints refuses everyone, on every protocol, with port-unreachable',
    covers: ['5.4', '12.39', '12.71'],
    steps: [
      apply(
        service('web', {
          ports: [
            { name: 'tcp', port: 80 },
            { name: 'udp', port: 80, protocol: 'UDP' },
            { name: 'sctp', port: 80, protocol: 'SCTP' },
          ],
        }),
      ),
      connect('pod-a', port, unreachable()),
      connect('pod-c', port, unreachable()),
      connect('node', port, unreachable()),
      connect('client', port, unreachable()),
      connect('client', at(vip, 80, 'UDP'), unreachable()),
      connect('node', at(vip, 80, 'UDP'), unreachable()),
      connect('client', at(vip, 80, 'SCTP'), unreachable()),
    ],
  },
  {
    name: 'A port that a ClusterIP does not have is refused, also on another protocol',
    covers: ['6.6', '6.8', '12.40'],
    differsIn: leavesUnknownPorts,
    steps: [
      apply(service('web'), ...slices('web', ['pod-a'])),
      connect('client', at(vip, 81), refused),
      connect('pod-b', at(vip, 81), refused),
      connect('node', at(vip, 81), refused),
      connect('pod-b', at(vip, 80, 'UDP'), refused),
    ],
  },
  storyOf("One Service's address does not answer on the port of another", '12.40', [
    apply(
      service('web'),
      service('shop', { clusterIp: others, ports: [{ port: 90 }] }),
      ...slices('web', ['pod-a']),
      ...slices('shop', ['pod-b']),
    ),
    connect('client', at(vip, 80), answered({ 'pod-a': 'node' })),
    connect('client', at(others, 90), answered({ 'pod-b': 'node' })),
    connect('pod-b', at(vip, 90), unknownPort),
    connect('pod-b', at(others, 80), unknownPort),
  ]),
  storyOf('The address of a deleted Service is unknown', '6.6 12.46', [
    apply(service('web'), ...slices('web', ['pod-a'])),
    connect('client', port, answered({ 'pod-a': 'node' })),
    remove(service('web')),
    connect('client', port, unallocated),
    connect('pod-b', port, unallocated),
    apply(service('web')),
    connect('client', port, answered({ 'pod-a': 'node' })),
  ]),
  storyOf('A Service that stays while others are deleted loses nothing', '6.7', [
    apply(
      service('web'),
      service('shop', { clusterIp: others }),
      ...slices('web', ['pod-a', 'pod-b']),
      ...slices('shop', ['pod-a', 'pod-b']),
    ),
    remove(service('shop'), ...slices('shop', [])),
    connect('client', port, answered({ 'pod-a': 'node', 'pod-b': 'node' }), {
      from: { addresses: CLIENT_OTHER_IP },
    }),
    connect('pod-b', at(others, 80), unallocated),
  ]),
];

export const clusterIpStories: readonly Story[] = [...choice, ...refusals];
