/** Flows that must not outlive what they point at (behaviour document 5.12). */

import { ABYSS_IP, type ActorName, clusterIp, NODE_IP, POD_A_IP } from '../lab/addresses.ts';
import { type EndpointOptions, service, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  open,
  refused,
  remove,
  resume,
  type Story,
  silence,
  storyOf,
  wait,
} from '../lab/story.ts';
import { external, lb, NODE_PORT, unallocated, unprogrammed, vip } from './common.ts';
import { endsWithTheService, hasNoSCTP, movesUDPAtOnce, sharesNoPorts } from './differences.ts';

const ports = [{ port: 53, protocol: 'UDP', nodePort: NODE_PORT }] as const;
const web = service('web', { ports, vips: [lb], externalIps: [external] });
/** The same, before anybody has given it addresses that lead to the cluster. */
const unreached = service('web', { ports, spec: { type: 'LoadBalancer' } });

function behind(endpoints: readonly (ActorName | EndpointOptions)[], port = 8080) {
  return slices('web', endpoints, { ports: [{ port, protocol: 'UDP' }] });
}

const toVip = at(vip, 53, 'UDP');
const everywhere = [
  toVip,
  at(lb, 53, 'UDP'),
  at(external, 53, 'UDP'),
  at(NODE_IP, NODE_PORT, 'UDP'),
];
const podA = answered({ 'pod-a': 'any' });
const podB = answered({ 'pod-b': 'any' });

const udp: readonly Story[] = [
  {
    name: 'A UDP client moves to another endpoint when its own is removed, by each kind of frontend',
    covers: ['5.12', '12.27'],
    steps: [
      apply(web, ...behind(['pod-a'])),
      ...everywhere.map((target, n) => open(`flow ${n}`, 'client', target, podA)),
      open('of the node', 'node', toVip, podA),
      open('of a pod', 'pod-b', toVip, podA),
      apply(...behind(['pod-b'])),
      ...everywhere.map((_, n) => resume(`flow ${n}`, podB)),
      resume('of the node', podB),
      resume('of a pod', podB),
    ],
  },
  {
    name: 'A UDP client is refused when the last endpoint goes, and served when one comes',
    covers: ['5.12', '12.92'],
    steps: [
      apply(web, ...behind(['pod-a'])),
      ...everywhere.map((target, n) => open(`flow ${n}`, 'client', target, podA)),
      apply(...behind([])),
      ...everywhere.map((_, n) => resume(`flow ${n}`, refused)),
      apply(...behind(['pod-b'])),
      ...everywhere.map((_, n) => resume(`flow ${n}`, podB)),
    ],
  },
  {
    name: 'A UDP client that sent before the Service was there is served once it is',
    covers: ['5.12', '12.91'],
    steps: [
      open('early', 'client', at(lb, 53, 'UDP'), unprogrammed),
      open('early node port', 'client', at(NODE_IP, NODE_PORT, 'UDP'), refused),
      apply(web, ...behind(['pod-a'])),
      resume('early', podA),
      resume('early node port', podA),
    ],
  },
  {
    name: 'A UDP client of an address that a Service gets later is served by it from then on',
    covers: ['5.12', '12.91'],
    steps: [
      apply(unreached, ...behind(['pod-a'])),
      open('early', 'client', at(lb, 53, 'UDP'), unprogrammed),
      open('early external', 'client', at(external, 53, 'UDP'), unprogrammed),
      open('of a pod', 'pod-b', at(lb, 53, 'UDP'), unprogrammed),
      apply(service('web', { ports, vips: [lb] })),
      resume('early', podA),
      resume('of a pod', podA),
      apply(web),
      resume('early external', podA),
      apply(unreached),
      resume('early', unprogrammed),
      apply(web),
      resume('early', podA),
      resume('of a pod', podA),
    ],
  },
  {
    name: 'A UDP conversation with a server at an address goes to the Service that gets it',
    covers: ['5.12', '12.91'],
    differsIn: sharesNoPorts,
    nodeAddresses: [lb],
    servers: [{ actor: 'node', at: at(lb, 53, 'UDP') }],
    steps: [
      apply(unreached, ...behind(['pod-a'])),
      open('kept', 'client', at(lb, 53, 'UDP'), answered({ node: 'own' })),
      open('of a pod', 'pod-b', at(lb, 53, 'UDP'), answered({ node: 'own' })),
      open('of the node', 'node', at(lb, 53, 'UDP'), answered({ node: 'any' })),
      apply(web),
      resume('kept', podA),
      resume('of a pod', podA),
      resume('of the node', podA),
    ],
  },
  storyOf('A UDP client moves to the new port when its endpoint changes it', '5.12 12.91', [
    apply(web, ...behind(['pod-a'])),
    open('kept', 'client', toVip, answered({ 'pod-a:8080': 'any' })),
    apply(...behind(['pod-a'], 9090)),
    resume('kept', answered({ 'pod-a:9090': 'any' })),
  ]),
  {
    name: 'A UDP client stays with an endpoint that terminates, until that is gone',
    covers: ['5.12', '12.27'],
    differsIn: movesUDPAtOnce,
    steps: [
      apply(web, ...behind(['pod-a'])),
      open('kept', 'client', toVip, podA),
      apply(...behind([{ at: 'pod-a', ready: false, serving: true, terminating: true }, 'pod-b'])),
      resume('kept', podA),
      apply(...behind([{ at: 'pod-a', ready: false, serving: false, terminating: true }, 'pod-b'])),
      resume('kept', podB),
    ],
  },
  storyOf('A UDP client of a deleted Service does not reach its endpoints any more', '5.12', [
    apply(web, ...behind(['pod-a'])),
    open('kept', 'client', toVip, podA),
    remove(web),
    resume('kept', unallocated),
    apply(web, ...behind(['pod-b'])),
    resume('kept', podB),
  ]),
];

const others: readonly Story[] = [
  {
    name: 'UDP flows outside Services keep their path, even to a port that is a node port',
    covers: ['5.12'],
    servers: [{ actor: 'pod-a', at: at(POD_A_IP, NODE_PORT, 'UDP') }],
    steps: [
      apply(web, ...behind(['pod-a'])),
      open('direct', 'client', at(POD_A_IP, NODE_PORT, 'UDP'), answered({ 'pod-a': 'own' })),
      apply(...behind(['pod-b'])),
      resume('direct', answered({ 'pod-a': 'own' })),
    ],
  },
  storyOf('A TCP connection without an answer yet moves to another endpoint', '5.12', [
    apply(service('web'), ...slices('web', [{ at: ABYSS_IP }])),
    open('early', 'client', at(vip, 80), silence),
    apply(...slices('web', ['pod-b'])),
    resume('early', podB),
  ]),
  {
    name: 'A TCP connection that is open stays with its endpoint, also when the Service goes',
    covers: ['5.12', '12.91'],
    differsIn: endsWithTheService,
    steps: [
      apply(service('web'), ...slices('web', ['pod-a'])),
      open('kept', 'client', at(vip, 80), podA),
      apply(...slices('web', ['pod-b'])),
      connect('client', at(vip, 80), podB),
      wait(700, 'longer than connections that nobody answers are left alone'),
      resume('kept', podA),
      remove(service('web')),
      wait(2600, 'longer than connections that nobody answers are left alone'),
      resume('kept', podA),
    ],
  },
  {
    name: 'An SCTP client is not kept from a new endpoint by what it said to the old one',
    covers: ['5.12'],
    differsIn: hasNoSCTP,
    steps: [
      apply(
        service('web', { ports: [{ port: 80, protocol: 'SCTP' }] }),
        ...slices('web', ['pod-a'], { ports: [{ port: 8080, protocol: 'SCTP' }] }),
      ),
      connect('client', at(vip, 80, 'SCTP'), podA, { from: { port: 5000 } }),
      apply(...slices('web', ['pod-b'], { ports: [{ port: 8080, protocol: 'SCTP' }] })),
      connect('client', at(vip, 80, 'SCTP'), podB, { from: { port: 5000 } }),
    ],
  },
  storyOf('Flows of one Service are not touched by what happens to another', '5.12', [
    apply(
      web,
      service('dns', { clusterIp: clusterIp(11), ports: [{ port: 53, protocol: 'UDP' }] }),
      ...behind(['pod-a']),
      ...slices('dns', ['pod-a'], { ports: [{ port: 8080, protocol: 'UDP' }] }),
    ),
    open('kept', 'client', at(clusterIp(11), 53, 'UDP'), podA),
    open('moved', 'client', toVip, podA),
    apply(...behind(['pod-b'])),
    resume('kept', podA),
    resume('moved', podB),
  ]),
];

export const conntrackStories: readonly Story[] = [...udp, ...others];
