/** internalTrafficPolicy and externalTrafficPolicy (behaviour document 5.3, 5.4). */
import { service, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  connect,
  open,
  refused,
  resume,
  type Story,
  silence,
  storyOf,
} from '../lab/story.ts';
import { externalLocal, fromOutside, frontends, internalLocal, reachable } from './common.ts';
import { hasOnePool, tellsPodsByAddress } from './differences.ts';

const { clusterIp, loadBalancer, nodePort } = frontends;
const spread = slices('web', ['pod-a', 'pod-c']);
const remote = slices('web', ['pod-c']);

const nodeCidr = { detectLocalMode: 'NodeCIDR' } as const;
const noDetector = { detectLocalMode: 'ClusterCIDR' } as const;
const bridge = {
  detectLocalMode: 'BridgeInterface',
  detectLocal: { bridgeInterface: 'cni0' },
} as const;

const externalPolicy: readonly Story[] = [
  {
    name: 'External policy Local: clients outside reach local endpoints and keep their address',
    covers: ['5.4', '5.5', '12.69'],
    steps: [
      apply(reachable(externalLocal), ...spread),
      ...fromOutside.map((target) => connect('client', target, answered({ 'pod-a': 'own' }))),
      ...fromOutside.map((target) => connect('node2', target, answered({ 'pod-a': 'own' }))),
      connect('client', clusterIp, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
    ],
  },
  {
    name: 'External policy Local: pods of the node reach all endpoints and keep their address',
    covers: ['5.4', '5.5'],
    differsIn: hasOnePool,
    steps: [
      apply(reachable(externalLocal), ...spread),
      ...fromOutside.map((target) =>
        connect('pod-b', target, answered({ 'pod-a': 'own', 'pod-c': 'own' })),
      ),
      connect('pod-a', loadBalancer, answered({ 'pod-a': 'node', 'pod-c': 'own' })),
    ],
  },
  {
    name: 'External policy Local: the node itself reaches all endpoints, masqueraded',
    covers: ['5.4', '5.5', '12.69'],
    differsIn: hasOnePool,
    steps: [
      apply(reachable(externalLocal), ...spread),
      ...fromOutside.map((target) =>
        connect('node', target, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      ),
    ],
  },
  storyOf('External policy Local spreads over all local endpoints', '5.3', [
    apply(reachable(externalLocal), ...slices('web', ['pod-a', 'pod-b', 'pod-c'])),
    ...fromOutside.map((target) =>
      connect('client', target, answered({ 'pod-a': 'own', 'pod-b': 'own' })),
    ),
  ]),
  {
    name: 'External policy Local without a local endpoint: outside hears nothing, inside gets through',
    covers: ['5.4', '12.52'],
    steps: [
      apply(reachable(externalLocal), ...remote),
      ...fromOutside.map((target) => connect('client', target, silence)),
      connect('node2', loadBalancer, silence),
      ...fromOutside.map((target) => connect('pod-a', target, answered({ 'pod-c': 'own' }))),
      ...fromOutside.map((target) => connect('node', target, answered({ 'pod-c': 'node' }))),
    ],
  },
  storyOf('External policy Local without any endpoint: everyone is refused', '5.4 12.68', [
    apply(reachable(externalLocal), ...remote),
    connect('client', loadBalancer, silence),
    apply(...slices('web', [])),
    ...fromOutside.map((target) => connect('client', target, refused)),
    connect('pod-a', loadBalancer, refused),
    connect('node', nodePort, refused),
    apply(...spread),
    connect('client', loadBalancer, answered({ 'pod-a': 'own' })),
  ]),
  {
    name: 'External policy Local means nothing for a Service that cannot be reached from outside',
    covers: ['12.9'],
    steps: [
      apply(service('web', { spec: externalLocal }), ...spread),
      connect('client', clusterIp, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      apply(...remote),
      connect('client', clusterIp, answered({ 'pod-c': 'node' })),
    ],
  },
  {
    name: 'External policy Local with detector NodeCIDR: pods of other nodes count as outside',
    covers: ['5.4', '5.6'],
    settings: nodeCidr,
    differsIn: hasOnePool,
    steps: [
      apply(reachable(externalLocal), ...slices('web', ['pod-a', 'node2'])),
      connect('pod-b', loadBalancer, answered({ 'pod-a': 'own', node2: 'own' })),
      connect('pod-c', loadBalancer, answered({ 'pod-a': 'own' })),
    ],
  },
  {
    name: 'External policy Local with detector BridgeInterface: who comes by the bridge is inside',
    covers: ['5.4', '5.6'],
    settings: bridge,
    differsIn: { ...hasOnePool, ...tellsPodsByAddress },
    steps: [
      apply(reachable(externalLocal), ...spread),
      connect('pod-b', loadBalancer, answered({ 'pod-a': 'own', 'pod-c': 'own' })),
      connect('node2', loadBalancer, answered({ 'pod-a': 'own' })),
      connect('node', loadBalancer, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
    ],
  },
  {
    name: 'External policy Local without a detector: pods are treated as the outside',
    covers: ['5.5', '12.70'],
    settings: noDetector,
    differsIn: hasOnePool,
    steps: [
      apply(reachable(externalLocal), ...spread),
      connect('pod-b', loadBalancer, answered({ 'pod-a': 'own' })),
      connect('node', loadBalancer, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
      apply(...remote),
      connect('pod-b', loadBalancer, silence),
      connect('node', loadBalancer, answered({ 'pod-c': 'node' })),
    ],
  },
  storyOf('External policy changes on a live Service; connections that are open stay', '5.4', [
    apply(reachable(), ...remote),
    open('before', 'client', loadBalancer, answered({ 'pod-c': 'node' })),
    apply(reachable(externalLocal), ...spread),
    connect('client', loadBalancer, answered({ 'pod-a': 'own' })),
    resume('before', answered({ 'pod-c': 'node' })),
    apply(reachable()),
    connect('client', loadBalancer, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
    resume('before', answered({ 'pod-c': 'node' })),
  ]),
];

const internalPolicy: readonly Story[] = [
  {
    name: 'Internal policy Local: the ClusterIP leads to local endpoints, for everyone',
    covers: ['5.4', '5.5'],
    steps: [
      apply(service('web', { spec: internalLocal }), ...spread),
      connect('pod-b', clusterIp, answered({ 'pod-a': 'own' })),
      connect('node', clusterIp, answered({ 'pod-a': 'node' })),
      connect('client', clusterIp, answered({ 'pod-a': 'node' })),
      connect('pod-a', clusterIp, answered({ 'pod-a': 'node' })),
    ],
  },
  storyOf('Internal policy Local without a local endpoint drops packets', '5.4 12.10', [
    apply(service('web', { spec: internalLocal }), ...remote),
    connect('pod-a', clusterIp, silence),
    connect('node', clusterIp, silence),
    connect('client', clusterIp, silence),
    apply(...slices('web', [])),
    connect('pod-a', clusterIp, refused),
    connect('node', clusterIp, refused),
  ]),
  storyOf('Internal policy Local says nothing about frontends for the outside', '5.3 12.11', [
    apply(reachable(internalLocal), ...spread),
    connect('pod-b', clusterIp, answered({ 'pod-a': 'own' })),
    ...fromOutside.map((target) =>
      connect('client', target, answered({ 'pod-a': 'node', 'pod-c': 'node' })),
    ),
    apply(...remote),
    connect('pod-b', clusterIp, silence),
    connect('client', nodePort, answered({ 'pod-c': 'node' })),
  ]),
  {
    ...storyOf('Both policies Local: each heeds its own short cuts', '5.3 5.4', [
      apply(reachable({ ...internalLocal, ...externalLocal }), ...spread),
      connect('pod-b', clusterIp, answered({ 'pod-a': 'own' })),
      connect('pod-b', loadBalancer, answered({ 'pod-a': 'own', 'pod-c': 'own' })),
      connect('client', loadBalancer, answered({ 'pod-a': 'own' })),
      apply(...remote),
      connect('pod-b', clusterIp, silence),
      connect('client', loadBalancer, silence),
      connect('pod-b', loadBalancer, answered({ 'pod-c': 'own' })),
    ]),
    differsIn: hasOnePool,
  },
  storyOf('Internal policy changes on a live Service', '5.4', [
    apply(service('web'), ...remote),
    connect('pod-a', clusterIp, answered({ 'pod-c': 'own' })),
    apply(service('web', { spec: internalLocal })),
    connect('pod-a', clusterIp, silence),
    apply(...slices('web', ['pod-b', 'pod-c'])),
    connect('pod-a', clusterIp, answered({ 'pod-b': 'own' })),
    apply(service('web')),
    connect('pod-a', clusterIp, answered({ 'pod-b': 'own', 'pod-c': 'own' })),
  ]),
];

export const policyStories: readonly Story[] = [...externalPolicy, ...internalPolicy];
