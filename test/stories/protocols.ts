/** TCP, UDP and SCTP are equals (behaviour document 5.11). */
import { clusterIp, NODE_IP } from '../lab/addresses.ts';
import { service, slices } from '../lab/objects.ts';
import { PROTOCOLS } from '../lab/outcome.ts';
import {
  answered,
  apply,
  at,
  connect,
  open,
  refused,
  resume,
  type Story,
  storyOf,
} from '../lab/story.ts';
import { external, lb, NODE_PORT, unknownPort, vip } from './common.ts';
import { hasNoSCTP } from './differences.ts';

const named = PROTOCOLS.map((protocol) => ({ name: protocol.toLowerCase(), protocol }));

/** One Service whose port 80, and node port 30080, is there on every protocol. */
const web = service('web', {
  ports: named.map((port) => ({ ...port, port: 80, nodePort: NODE_PORT })),
  vips: [lb],
  externalIps: [external],
});

function onPort(port: number, ...names: readonly string[]) {
  return { ports: named.filter(({ name }) => names.includes(name)).map((p) => ({ ...p, port })) };
}

const perProtocol = PROTOCOLS.map(
  (protocol): Story => ({
    name: `${protocol} is served by each kind of frontend`,
    covers: ['5.11'],
    ...(protocol === 'SCTP' ? { differsIn: hasNoSCTP } : {}),
    steps: [
      apply(web, ...slices('web', ['pod-a', 'pod-c'], onPort(8080, protocol.toLowerCase()))),
      ...[at(vip, 80), at(lb, 80), at(external, 80), at(NODE_IP, NODE_PORT)].map((target) =>
        connect('client', { ...target, protocol }, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      ),
      connect('pod-b', at(vip, 80, protocol), answered({ 'pod-a': 'own', 'pod-c': 'own' })),
      connect('node', at(vip, 80, protocol), answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      apply(...slices('web', [], onPort(8080, protocol.toLowerCase()))),
      connect('client', at(vip, 80, protocol), refused),
      connect('client', at(NODE_IP, NODE_PORT, protocol), refused),
    ],
  }),
);

export const protocolStories: readonly Story[] = [
  ...perProtocol,
  {
    ...storyOf('One port number on three protocols leads to three different places', '5.11', [
      apply(
        web,
        ...slices('web', ['pod-a'], { ...onPort(8080, 'tcp'), suffix: '-tcp' }),
        ...slices('web', ['pod-b'], { ...onPort(8080, 'udp'), suffix: '-udp' }),
        ...slices('web', ['pod-c'], { ...onPort(8080, 'sctp'), suffix: '-sctp' }),
      ),
      connect('client', at(vip, 80, 'TCP'), answered({ 'pod-a': 'node' })),
      connect('client', at(vip, 80, 'UDP'), answered({ 'pod-b': 'node' })),
      connect('client', at(vip, 80, 'SCTP'), answered({ 'pod-c': 'node' })),
      connect('client', at(NODE_IP, NODE_PORT, 'TCP'), answered({ 'pod-a': 'node' })),
      connect('client', at(NODE_IP, NODE_PORT, 'UDP'), answered({ 'pod-b': 'node' })),
      connect('client', at(NODE_IP, NODE_PORT, 'SCTP'), answered({ 'pod-c': 'node' })),
    ]),
    differsIn: hasNoSCTP,
  },
  storyOf('A port of one protocol comes and goes without touching the others', '5.11 12.76', [
    apply(
      service('web', { ports: [{ name: 'udp', port: 80, protocol: 'UDP' }] }),
      ...slices('web', ['pod-a'], onPort(8080, 'tcp', 'udp')),
    ),
    connect('client', at(vip, 80, 'UDP'), answered({ 'pod-a': 'node' })),
    connect('client', at(vip, 80, 'TCP'), unknownPort),
    open('kept', 'client', at(vip, 80, 'UDP'), answered({ 'pod-a': 'node' })),
    apply(
      service('web', {
        ports: [
          { name: 'udp', port: 80, protocol: 'UDP' },
          { name: 'tcp', port: 80, protocol: 'TCP' },
        ],
      }),
    ),
    connect('client', at(vip, 80, 'TCP'), answered({ 'pod-a': 'node' })),
    resume('kept', answered({ 'pod-a': 'node' })),
    apply(service('web', { ports: [{ name: 'tcp', port: 80, protocol: 'TCP' }] })),
    connect('client', at(vip, 80, 'UDP'), unknownPort),
    connect('client', at(vip, 80, 'TCP'), answered({ 'pod-a': 'node' })),
  ]),
  storyOf('A UDP client that keeps its port keeps its endpoint while others come', '5.11 5.12', [
    apply(
      service('web', {
        clusterIp: clusterIp(10),
        ports: [{ name: 'udp', port: 53, protocol: 'UDP' }],
      }),
      ...slices('web', ['pod-a'], onPort(8080, 'udp')),
    ),
    open('kept', 'client', at(vip, 53, 'UDP'), answered({ 'pod-a': 'node' })),
    apply(...slices('web', ['pod-a', 'pod-b', 'pod-c'], onPort(8080, 'udp'))),
    resume('kept', answered({ 'pod-a': 'node' })),
  ]),
];
