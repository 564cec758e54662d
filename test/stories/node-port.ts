/** Node ports: on which addresses, for whom (behaviour document 5.9). */

import {
  clusterIp,
  type DualAddresses,
  NODE_BRIDGE_IP,
  NODE_IP,
  NODE_SECOND_IP,
  NODE2_IP,
  POD_B_IP,
} from '../lab/addresses.ts';
import { settings as detector, joined, node, service, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  refused,
  reset,
  type Step,
  type Story,
  storyOf,
} from '../lab/story.ts';
import { each, NODE_PORT, vip } from './common.ts';
import { refusesOnAllAddresses, startsWithAllAddresses } from './differences.ts';

/** The name of a story in which a process of the node listens where a node port would be. */
export const portOfAnother =
  'nodePortAddresses of loopback leave a port alone that a process of the node has';

const ports = [{ port: 80, nodePort: NODE_PORT }];
const web = [service('web', { ports }), ...slices('web', ['pod-a', 'pod-c'])];
const onePod = [service('web', { ports }), ...slices('web', ['pod-a'])];
const both = answered({ 'pod-a': 'node', 'pod-c': 'node' });
const podA = answered({ 'pod-a': 'node' });

const LOOPBACK: DualAddresses = { IPv4: '127.0.0.1', IPv6: '::1' };
const FIRST_LAN: DualAddresses = { IPv4: '192.168.10.0/24', IPv6: 'fd00:10::/64' };
const SECOND_LAN: DualAddresses = { IPv4: '192.168.20.0/24', IPv6: 'fd00:20::/64' };

function to(address: DualAddresses, port: number = NODE_PORT): ReturnType<typeof at> {
  return at(address, port);
}

/** A server on every address of the node: who gets there was not taken for the node port. */
const OWN_SERVERS = each([NODE_IP, NODE_SECOND_IP, NODE_BRIDGE_IP, LOOPBACK], (address) => ({
  actor: 'node' as const,
  at: to(address),
}));
const theNode = answered({ node: 'own' });

const everyAddress = { ...detector, nodePortAddresses: ['0.0.0.0/0', '::/0'] };

const everywhere: readonly Story[] = [
  {
    name: 'A node port is open on every address of the node, to everyone, masqueraded',
    covers: ['5.5', '5.9'],
    settings: everyAddress,
    steps: [
      apply(...web),
      connect('client', to(NODE_IP), both),
      connect('client', to(NODE_SECOND_IP), both),
      connect('node2', to(NODE_IP), both),
      connect('pod-b', to(NODE_IP), both),
      connect('pod-b', to(NODE_BRIDGE_IP), both),
      connect('node', to(NODE_IP), both),
      connect('node', to(NODE_SECOND_IP), both),
      connect('pod-a', to(NODE_SECOND_IP), both),
      connect('pod-c', to(NODE_IP), answered({ 'pod-a': 'node', 'pod-c': 'node' })),
    ],
  },
  {
    ...storyOf('A node port is not open on loopback', '5.9', [
      apply(...onePod),
      connect('node', to(LOOPBACK), theNode),
      connect('node', to(NODE_IP), podA),
    ]),
    settings: everyAddress,
    servers: OWN_SERVERS,
  },
  {
    name: 'A node port without endpoints is refused on every address, also with a server there',
    covers: ['5.4', '6.6'],
    differsIn: refusesOnAllAddresses,
    settings: everyAddress,
    servers: OWN_SERVERS,
    steps: [
      apply(service('web', { ports })),
      connect('client', to(NODE_IP), refused),
      connect('client', to(NODE_SECOND_IP), refused),
      connect('pod-a', to(NODE_BRIDGE_IP), refused),
      connect('node', to(NODE_IP), refused),
      connect('node', to(LOOPBACK), theNode),
    ],
  },
  {
    ...storyOf('The same port elsewhere is not translated: on pods and on other nodes', '5.9', [
      apply(...onePod),
      connect('client', to(POD_B_IP), answered({ 'pod-b': 'own' })),
      connect('node', to(POD_B_IP), answered({ 'pod-b': 'own' })),
      connect('pod-a', to(NODE2_IP), answered({ node2: 'own' })),
    ]),
    servers: [
      { actor: 'pod-b', at: to(POD_B_IP) },
      { actor: 'node2', at: to(NODE2_IP) },
    ],
  },
  storyOf('A node port is moved, taken away and given back', '5.2 6.7', [
    apply(...onePod),
    connect('client', to(NODE_IP), podA),
    apply(service('web', { ports: [{ port: 80, nodePort: 30081 }] })),
    connect('client', to(NODE_IP, 30081), podA),
    connect('client', to(NODE_IP), reset),
    apply(service('web')),
    connect('client', to(NODE_IP, 30081), reset),
    connect('client', at(vip, 80), podA),
    apply(service('web', { ports })),
    connect('client', to(NODE_IP), podA),
  ]),
  storyOf('One node port number serves a Service on each protocol', '5.11 12.72', [
    apply(
      service('web', { ports: [{ port: 80, protocol: 'TCP', nodePort: NODE_PORT }] }),
      service('dns', {
        clusterIp: clusterIp(11),
        ports: [{ port: 53, protocol: 'UDP', nodePort: NODE_PORT }],
      }),
      ...slices('web', ['pod-a']),
      ...slices('dns', ['pod-b'], { ports: [{ port: 5353, protocol: 'UDP' }] }),
    ),
    connect('client', at(NODE_IP, NODE_PORT, 'TCP'), podA),
    connect('client', at(NODE_IP, NODE_PORT, 'UDP'), answered({ 'pod-b:5353': 'node' })),
  ]),
];

/** Addresses with the node port, and addresses where the node's own server answers instead. */
function restricted(
  name: string,
  nodePortAddresses: readonly string[],
  open: readonly DualAddresses[],
  shut: readonly DualAddresses[],
  extra: readonly Step[] = [],
): Story {
  return {
    name,
    covers: ['5.9', '12.45'],
    settings: { ...detector, nodePortAddresses },
    servers: OWN_SERVERS,
    steps: [
      apply(...onePod),
      ...each(open, (address) => connect('client', to(address), podA)),
      ...each(shut, (address) => connect('client', to(address), theNode)),
      ...extra,
    ],
  };
}

const first = joined(FIRST_LAN).split(',');
const second = joined(SECOND_LAN).split(',');

const addresses: readonly Story[] = [
  {
    ...storyOf('Without nodePortAddresses, only primary node IPs have node ports', '3.3 5.9', [
      apply(...onePod),
      connect('client', to(NODE_IP), podA),
      connect('client', to(NODE_SECOND_IP), theNode),
    ]),
    differsIn: startsWithAllAddresses,
    servers: OWN_SERVERS,
  },
  {
    differsIn: refusesOnAllAddresses,
    ...restricted(
      'nodePortAddresses primary: only the primary node IP of each family has node ports',
      ['primary'],
      [NODE_IP],
      [NODE_SECOND_IP],
      [
        connect('node', to(NODE_IP), podA),
        connect('node', to(NODE_SECOND_IP), theNode),
        connect('pod-b', to(NODE_BRIDGE_IP), theNode),
        apply(...slices('web', [])),
        connect('client', to(NODE_IP), refused),
        connect('client', to(NODE_SECOND_IP), theNode),
      ],
    ),
  },
  restricted(
    'nodePortAddresses primary: node ports move when the Node gets another primary address',
    ['primary'],
    [NODE_IP],
    [NODE_SECOND_IP],
    [
      apply(node({ addresses: NODE_SECOND_IP })),
      connect('client', to(NODE_SECOND_IP), podA),
      connect('client', to(NODE_IP), theNode),
    ],
  ),
  restricted(
    'nodePortAddresses as CIDRs: addresses within have node ports, others do not',
    second,
    [NODE_SECOND_IP],
    [NODE_IP],
    [connect('node', to(LOOPBACK), theNode), connect('pod-b', to(NODE_BRIDGE_IP), theNode)],
  ),
  restricted(
    'nodePortAddresses as several CIDRs: addresses within any of them have node ports',
    [...first, ...second],
    [NODE_IP, NODE_SECOND_IP],
    [],
    [connect('pod-b', to(NODE_BRIDGE_IP), theNode)],
  ),
  restricted(
    'nodePortAddresses of one family leave the other family unrestricted',
    [SECOND_LAN.IPv4],
    [NODE_SECOND_IP],
    [{ IPv4: NODE_IP.IPv4 } as DualAddresses],
    [connect('client', to({ IPv6: NODE_IP.IPv6 } as DualAddresses), podA)],
  ),
  restricted(
    'nodePortAddresses that no address of the node is in: there are no node ports',
    ['10.99.0.0/16', 'fd00:99::/64'],
    [],
    [NODE_IP, NODE_SECOND_IP],
  ),
  restricted(
    'nodePortAddresses with a /0: every address has node ports, whatever else is listed',
    [SECOND_LAN.IPv4, '0.0.0.0/0', '::/0'],
    [NODE_IP, NODE_SECOND_IP],
    [],
    [connect('node', to(LOOPBACK), theNode)],
  ),
  restricted(
    portOfAnother,
    ['127.0.0.0/8', '::1/128'],
    [],
    [NODE_IP],
    [connect('node', to(LOOPBACK), theNode)],
  ),
];

export const nodePortStories: readonly Story[] = [...everywhere, ...addresses];
