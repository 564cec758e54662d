/** Addresses of ServiceCIDRs that no Service has (behaviour document 6.6). */
import { clusterIp, SERVICE_CIDR } from '../lab/addresses.ts';
import { joined, service, serviceCidr, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  refused,
  remove,
  type Story,
  silence,
  storyOf,
} from '../lab/story.ts';
import { frontends, unprogrammed } from './common.ts';
import { knowsNoServiceCIDRs } from './differences.ts';

const unallocated = at(clusterIp(99), 80);
/** In no ServiceCIDR at first, but the router has a route to it. */
const SECOND_CIDR = { IPv4: '192.0.2.128/25', IPv6: '2001:db8:2::8000/113' };
const SECOND_IP = { IPv4: '192.0.2.155', IPv6: '2001:db8:2::8055' };
const inSecond = at(SECOND_IP, 80);
const first = joined(SERVICE_CIDR).split(',');
const second = joined(SECOND_CIDR).split(',');
const podA = answered({ 'pod-a': 'node' });

export const serviceCidrStories: readonly Story[] = [
  {
    name: 'An address of the ServiceCIDR that no Service has is silent, on every protocol',
    covers: ['6.6', '6.8', '12.40'],
    differsIn: knowsNoServiceCIDRs,
    steps: [
      apply(service('web'), ...slices('web', ['pod-a'])),
      connect('client', unallocated, silence),
      connect('pod-b', unallocated, silence),
      connect('node', unallocated, silence),
      connect('client', at(clusterIp(99), 80, 'UDP'), silence),
      connect('client', at(clusterIp(99), 80, 'SCTP'), silence),
      connect('client', frontends.clusterIp, podA),
    ],
  },
  {
    name: 'A ServiceCIDR that is added or removed takes effect immediately',
    covers: ['6.9', '12.51', '12.107'],
    differsIn: knowsNoServiceCIDRs,
    steps: [
      apply(service('web'), ...slices('web', ['pod-a'])),
      connect('pod-b', inSecond, unprogrammed),
      apply(serviceCidr(second, 'more')),
      connect('pod-b', inSecond, silence),
      connect('node', unallocated, silence),
      remove(serviceCidr(second, 'more')),
      connect('pod-b', inSecond, unprogrammed),
      connect('node', unallocated, silence),
    ],
  },
  {
    ...storyOf('A ServiceCIDR that changes its ranges takes effect immediately', '6.9 12.107', [
      apply(serviceCidr(second)),
      connect('pod-b', inSecond, silence),
      connect('client', unallocated, unprogrammed),
      apply(serviceCidr([...first, ...second])),
      connect('pod-b', inSecond, silence),
      connect('client', unallocated, silence),
    ]),
    differsIn: knowsNoServiceCIDRs,
  },
  {
    ...storyOf('Without a ServiceCIDR nothing is known of addresses that no Service has', '6.6', [
      apply(service('web'), ...slices('web', ['pod-a'])),
      remove(serviceCidr()),
      connect('client', unallocated, unprogrammed),
      connect('client', frontends.clusterIp, podA),
      connect('pod-b', at(clusterIp(10), 81), refused),
    ]),
    differsIn: knowsNoServiceCIDRs,
  },
  {
    ...storyOf('A range that two ServiceCIDRs have stays when one of them goes', '4.1', [
      apply(serviceCidr(first, 'again'), serviceCidr(['10.96.0.0/24', 'fd00:96::/120'], 'part')),
      connect('client', unallocated, silence),
      remove(serviceCidr(first, 'again')),
      connect('client', unallocated, silence),
      remove(serviceCidr()),
      connect('client', unallocated, silence),
      connect('client', at({ IPv4: '10.96.9.9', IPv6: 'fd00:96::909' }, 80), unprogrammed),
    ]),
    differsIn: knowsNoServiceCIDRs,
  },
  {
    ...storyOf('A ClusterIP outside of every ServiceCIDR works', '6.6', [
      apply(service('web', { clusterIp: SECOND_IP }), ...slices('web', ['pod-a'])),
      connect('pod-b', inSecond, answered({ 'pod-a': 'own' })),
      connect('pod-b', at(SECOND_IP, 81), refused),
    ]),
    differsIn: knowsNoServiceCIDRs,
  },
];
