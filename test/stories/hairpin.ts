/** Endpoints that reach themselves through a Service (behaviour document 5.5, 6.6). */
import { clusterIp } from '../lab/addresses.ts';
import { clientIpAffinity, service, slices } from '../lab/objects.ts';
import { answered, apply, at, connect, remove, type Story, storyOf } from '../lab/story.ts';
import { externalLocal, fromOutside, frontends, reachable, vip } from './common.ts';
import { hasNoSCTP, knowsEndpointsByNode } from './differences.ts';

const { clusterIp: toVip, loadBalancer } = frontends;
const itself = answered({ 'pod-a': 'node' });

export const hairpinStories: readonly Story[] = [
  storyOf('An endpoint that reaches itself is masqueraded, by every kind of frontend', '5.5 6.6', [
    apply(reachable(), ...slices('web', ['pod-a'])),
    ...Object.values(frontends).map((target) => connect('pod-a', target, itself)),
    connect('pod-b', toVip, answered({ 'pod-a': 'own' })),
  ]),
  {
    name: 'An endpoint that reaches itself is masqueraded with policy Local and without a detector',
    covers: ['5.5'],
    settings: { detectLocalMode: 'ClusterCIDR' },
    steps: [
      apply(reachable(externalLocal), ...slices('web', ['pod-a'])),
      connect('pod-a', toVip, itself),
      ...fromOutside.map((target) => connect('pod-a', target, itself)),
    ],
  },
  {
    ...storyOf('An endpoint of which it is not known that it is here reaches itself', '5.5', [
      apply(service('web'), ...slices('web', [{ at: 'pod-a', nodeName: '' }])),
      connect('pod-a', toVip, itself),
    ]),
    differsIn: knowsEndpointsByNode,
  },
  storyOf('An endpoint that terminates still reaches itself', '5.5 12.83', [
    apply(
      service('web'),
      ...slices('web', [{ at: 'pod-a', ready: false, serving: true, terminating: true }]),
    ),
    connect('pod-a', toVip, itself),
  ]),
  storyOf('An endpoint reaches itself on every protocol', '5.5 5.11', { differsIn: hasNoSCTP }, [
    apply(
      service('web', {
        ports: [
          { name: 'udp', port: 53, protocol: 'UDP' },
          { name: 'sctp', port: 53, protocol: 'SCTP' },
        ],
      }),
      ...slices('web', ['pod-a'], {
        ports: [
          { name: 'udp', port: 8080, protocol: 'UDP' },
          { name: 'sctp', port: 8080, protocol: 'SCTP' },
        ],
      }),
    ),
    connect('pod-a', at(vip, 53, 'UDP'), itself),
    connect('pod-a', at(vip, 53, 'SCTP'), itself),
  ]),
  storyOf('An endpoint of two Services still reaches itself when one of them is deleted', '12.43', [
    apply(
      service('web'),
      service('shop', { clusterIp: clusterIp(11) }),
      ...slices('web', ['pod-a']),
      ...slices('shop', ['pod-a']),
    ),
    connect('pod-a', toVip, itself),
    connect('pod-a', at(clusterIp(11), 80), itself),
    remove(service('shop'), ...slices('shop', [])),
    connect('pod-a', toVip, itself),
  ]),
  storyOf('An endpoint that reaches itself does so again with session affinity', '5.5 5.8', [
    apply(reachable(clientIpAffinity(60)), ...slices('web', ['pod-a'])),
    connect('pod-a', toVip, itself),
    connect('pod-a', loadBalancer, itself),
    apply(...slices('web', ['pod-a', 'pod-b'])),
    connect('pod-a', toVip, itself),
    connect('pod-a', loadBalancer, itself),
  ]),
];
