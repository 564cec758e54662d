/** Who is seen as the node, by local detector and by frontend (behaviour document 5.5, 5.6). */
import {
  type ActorName,
  NODE_BRIDGE_IP,
  NODE_POD_CIDR,
  POD_B_IP,
  POD_BRIDGE,
} from '../lab/addresses.ts';
import { SERVER_PORT, slices, settings as standard } from '../lab/objects.ts';
import type { ProxySettings } from '../lab/proxy.ts';
import {
  answered,
  apply,
  at,
  connect,
  type SeenSource,
  type Story,
  storyOf,
} from '../lab/story.ts';
import { externalLocal, fromOutside, frontends, reachable } from './common.ts';
import { masqueradesTheNode } from './differences.ts';

/** As whom an endpoint of this node sees each client of a ClusterIP. */
type Seen = Readonly<Record<'pod-a' | 'pod-c' | 'node' | 'node2' | 'client', SeenSource>>;

/** An address that only masquerading gives: the node's own clients have another one. */
const masked = NODE_BRIDGE_IP;
const nobody: Seen = { 'pod-a': 'own', 'pod-c': 'own', node: 'own', node2: 'own', client: 'own' };
const everyone: Seen = {
  'pod-a': masked,
  'pod-c': masked,
  node: masked,
  node2: masked,
  client: masked,
};
const butPods: Seen = { ...everyone, 'pod-a': 'own', 'pod-c': 'own' };
const butOwnPods: Seen = { ...everyone, 'pod-a': 'own' };

const once = { connections: 2 };

/** All clients by the ClusterIP, and by the other frontends with both external policies. */
function matrix(name: string, settings: ProxySettings, seen: Seen, covers: string[] = []): Story {
  const clients = Object.entries(seen) as [ActorName, SeenSource][];
  return {
    name,
    covers: ['5.5', '5.6', ...covers],
    settings,
    steps: [
      apply(reachable(), ...slices('web', ['pod-b'])),
      ...clients.map(([client, as]) =>
        connect(client, frontends.clusterIp, answered({ 'pod-b': as }), once),
      ),
      ...clients.flatMap(([client]) =>
        fromOutside.map((target) => connect(client, target, answered({ 'pod-b': masked }), once)),
      ),
      apply(reachable(externalLocal)),
      ...clients.flatMap(([client]) =>
        fromOutside.map((target) => {
          const as = client === 'node' ? masked : 'own';
          return connect(client, target, answered({ 'pod-b': as }), once);
        }),
      ),
    ],
  };
}

const clusterCidr = {
  ...standard,
} as const satisfies ProxySettings;

const detectors: readonly Story[] = [
  matrix('Detector ClusterCIDR: all but pods of any node are masqueraded', clusterCidr, butPods),
  matrix(
    'Detector NodeCIDR: all but pods of this node are masqueraded',
    { detectLocalMode: 'NodeCIDR' },
    butOwnPods,
  ),
  matrix(
    'Detector BridgeInterface: all that does not come by the bridge is masqueraded',
    { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: POD_BRIDGE } },
    butOwnPods,
  ),
  matrix(
    'Detector InterfaceNamePrefix: all that does not come by such an interface is masqueraded',
    { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 'cni' } },
    butOwnPods,
  ),
  {
    ...matrix(
      'Without a detector no client is masqueraded on the way to a ClusterIP',
      { detectLocalMode: 'ClusterCIDR' },
      nobody,
      ['12.70'],
    ),
    differsIn: masqueradesTheNode,
  },
  matrix(
    'A cluster CIDR that is not a whole number of bytes is matched to the bit',
    { detectLocalMode: 'ClusterCIDR', clusterCIDR: '10.244.0.0/23,fd00:244:0::/47' },
    butOwnPods,
  ),
  matrix(
    'masqueradeAll: everyone is masqueraded on the way to a ClusterIP',
    { ...clusterCidr, masqueradeAll: true },
    everyone,
    ['6.6'],
  ),
];

const directly = at(POD_B_IP, SERVER_PORT);

const rest: readonly Story[] = [
  {
    ...storyOf('A detector of one family leaves the other family without one', '5.6', [
      apply(reachable(), ...slices('web', ['pod-b'])),
      connect('client', frontends.clusterIp, answered({ 'pod-b': masked }), { families: ['IPv4'] }),
      connect('client', frontends.clusterIp, answered({ 'pod-b': 'own' }), { families: ['IPv6'] }),
      connect('pod-a', frontends.clusterIp, answered({ 'pod-b': 'own' })),
    ]),
    settings: { detectLocalMode: 'ClusterCIDR', clusterCIDR: NODE_POD_CIDR.IPv4 },
  },
  ...[0, 31].map(
    (masqueradeBit): Story => ({
      name: `masqueradeBit may be ${masqueradeBit}`,
      covers: ['6.6'],
      settings: { ...clusterCidr, masqueradeBit },
      steps: [
        apply(reachable(), ...slices('web', ['pod-b'])),
        connect('client', frontends.clusterIp, answered({ 'pod-b': masked })),
        connect('pod-a', frontends.clusterIp, answered({ 'pod-b': 'own' })),
        connect('pod-a', frontends.nodePort, answered({ 'pod-b': masked })),
      ],
    }),
  ),
  {
    ...storyOf('Traffic outside Services is never masqueraded', '6.6 12.38', [
      apply(reachable(), ...slices('web', ['pod-b'])),
      connect('client', directly, answered({ 'pod-b': 'own' })),
      connect('pod-a', directly, answered({ 'pod-b': 'own' })),
      connect('node', directly, answered({ 'pod-b': 'own' })),
    ]),
    settings: { ...clusterCidr, masqueradeAll: true },
  },
];

export const masqueradeStories: readonly Story[] = [...detectors, ...rest];
