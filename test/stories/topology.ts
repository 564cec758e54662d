/** Topology hints (behaviour document 5.3; KEP-2433, KEP-3015, KEP-4444). */
import type { ActorName } from '../lab/addresses.ts';
import { type EndpointOptions, node, service, slices } from '../lab/objects.ts';
import { answered, apply, connect, type Expectation, type Story, storyOf } from '../lab/story.ts';
import { externalLocal, frontends, internalLocal, reachable } from './common.ts';
import { hasOnePool } from './differences.ts';

const { clusterIp, loadBalancer, nodePort } = frontends;

function inZone(zone: string) {
  return node({ labels: { 'topology.kubernetes.io/zone': zone } });
}

type Hinted = Omit<EndpointOptions, 'at' | 'hints'>;

function zoned(at: ActorName, zones: readonly string[], options: Hinted = {}): EndpointOptions {
  return { at, hints: { forZones: zones }, ...options };
}

function onNode(at: ActorName, nodes: readonly string[], zones?: readonly string[]) {
  return { at, hints: { forNodes: nodes, ...(zones === undefined ? {} : { forZones: zones }) } };
}

/** A node in zone `a`, and who then answers on the ClusterIP. */
function story(
  name: string,
  covers: readonly string[],
  endpoints: readonly (ActorName | EndpointOptions)[],
  expected: Expectation,
  zone = 'a',
): Story {
  return {
    name,
    covers: ['5.3', ...covers],
    steps: [
      apply(inZone(zone), service('web'), ...slices('web', endpoints)),
      connect('client', clusterIp, expected),
    ],
  };
}

const all = answered({ 'pod-a': 'node', 'pod-b': 'node', 'pod-c': 'node' });
const inA = answered({ 'pod-a': 'node', 'pod-c': 'node' });
const unready = { ready: false };

const zones: readonly Story[] = [
  story(
    'Zone hints keep traffic in the zone, wherever its endpoints are',
    [],
    [zoned('pod-a', ['a']), zoned('pod-b', ['b']), zoned('pod-c', ['a'])],
    inA,
  ),
  story(
    'An endpoint may be hinted for several zones',
    ['12.5'],
    [zoned('pod-a', ['b', 'a']), zoned('pod-b', ['b', 'c']), zoned('pod-c', ['a'])],
    inA,
  ),
  story(
    'One ready endpoint without a zone hint: hints are not heeded',
    ['12.1'],
    [zoned('pod-a', ['a']), 'pod-b', zoned('pod-c', ['b'])],
    all,
  ),
  story(
    'Endpoints that are not ready have no say about hints',
    ['12.2'],
    [zoned('pod-a', ['a']), { at: 'pod-b', ...unready }, zoned('pod-c', ['b'])],
    answered({ 'pod-a': 'node' }),
  ),
  story(
    'A zone whose endpoints are not ready uses those of all zones',
    ['12.3'],
    [zoned('pod-a', ['a'], unready), zoned('pod-b', ['b']), zoned('pod-c', ['c'])],
    answered({ 'pod-b': 'node', 'pod-c': 'node' }),
  ),
  story(
    'A zone that no endpoint is hinted for uses those of all zones',
    ['12.4'],
    [zoned('pod-a', ['a']), zoned('pod-b', ['b']), zoned('pod-c', ['a'])],
    all,
    'z',
  ),
  story(
    'A node with an empty zone label uses the endpoints of all zones',
    ['12.4'],
    [zoned('pod-a', ['a']), zoned('pod-b', ['b']), zoned('pod-c', [''])],
    all,
    '',
  ),
  story(
    'Terminating endpoints that are fallen back to are used whatever their zone',
    [],
    [
      zoned('pod-a', ['a'], { ready: false, serving: true, terminating: true }),
      zoned('pod-b', ['b'], { ready: false, serving: true, terminating: true }),
    ],
    answered({ 'pod-a': 'node', 'pod-b': 'node' }),
  ),
  {
    name: 'Without a zone label, and until the label changes, no hints are heeded; then they are',
    covers: ['12.4', '12.106'],
    steps: [
      apply(
        service('web'),
        ...slices('web', [zoned('pod-a', ['a']), zoned('pod-b', ['b']), zoned('pod-c', ['a'])]),
      ),
      connect('client', clusterIp, all),
      apply(inZone('a')),
      connect('client', clusterIp, inA),
      apply(inZone('b')),
      connect('client', clusterIp, answered({ 'pod-b': 'node' })),
      apply(node({ labels: { 'node.kubernetes.io/instance-type': 'large' } })),
      connect('client', clusterIp, all),
    ],
  },
];

const nodes: readonly Story[] = [
  story(
    'Node hints keep traffic on the node',
    [],
    [onNode('pod-a', ['node']), onNode('pod-b', ['node2']), onNode('pod-c', ['node', 'node2'])],
    inA,
  ),
  story(
    'Node hints of which none is for this node: zone hints are heeded',
    ['12.6'],
    [
      onNode('pod-a', ['node3'], ['a']),
      onNode('pod-b', ['node2'], ['b']),
      onNode('pod-c', ['node2'], ['a']),
    ],
    inA,
  ),
  story(
    'Node hints come before zone hints',
    ['12.6'],
    [onNode('pod-a', ['node2'], ['a']), onNode('pod-b', ['node'], ['b'])],
    answered({ 'pod-b': 'node' }),
  ),
  story(
    'One endpoint without any hint: neither node nor zone hints are heeded',
    ['12.7'],
    [onNode('pod-a', ['node'], ['a']), 'pod-b', onNode('pod-c', ['node2'], ['b'])],
    all,
  ),
  story(
    'One endpoint without a node hint, but all with zone hints: the zone is heeded',
    ['12.7'],
    [onNode('pod-a', ['node'], ['a']), zoned('pod-b', ['b']), zoned('pod-c', ['a'])],
    inA,
  ),
  storyOf('trafficDistribution alone changes nothing: it is the hints that are heeded', '5.2', [
    apply(
      inZone('a'),
      service('web', { spec: { trafficDistribution: 'PreferSameNode' } }),
      ...slices('web', ['pod-a', 'pod-b', 'pod-c']),
    ),
    connect('client', clusterIp, all),
  ]),
];

const policies: readonly Story[] = [
  {
    name: 'Hints say nothing about policy Local: a local endpoint of another zone is used',
    covers: ['5.3', '12.8'],
    steps: [
      apply(
        inZone('a'),
        reachable(externalLocal),
        ...slices('web', [zoned('pod-a', ['b']), zoned('pod-b', ['a']), zoned('pod-c', ['a'])]),
      ),
      connect('client', loadBalancer, answered({ 'pod-a': 'own', 'pod-b': 'own' })),
      connect('client', clusterIp, answered({ 'pod-b': 'node', 'pod-c': 'node' })),
    ],
  },
  {
    ...storyOf('With policy Local the node itself heeds hints at its node ports', '5.3 12.8', [
      apply(
        inZone('a'),
        reachable(externalLocal),
        ...slices('web', [zoned('pod-a', ['b']), zoned('pod-b', ['a']), zoned('pod-c', ['a'])]),
      ),
      connect('node', nodePort, answered({ 'pod-b': 'node', 'pod-c': 'node' })),
    ]),
    differsIn: hasOnePool,
  },
  storyOf('Internal policy Local uses local endpoints whatever their hints', '5.3 12.8', [
    apply(
      inZone('a'),
      service('web', { spec: internalLocal }),
      ...slices('web', [zoned('pod-a', ['b']), zoned('pod-c', ['a'])]),
    ),
    connect('pod-b', clusterIp, answered({ 'pod-a': 'own' })),
  ]),
];

export const topologyStories: readonly Story[] = [...zones, ...nodes, ...policies];
