/** How EndpointSlices come to be endpoints (behaviour document 4.3). */
import { clusterIp, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { service, slice, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  refused,
  remove,
  type Story,
  storyOf,
} from '../lab/story.ts';
import { frontends, unallocated } from './common.ts';

const { clusterIp: toVip } = frontends;
const podA = answered({ 'pod-a': 'node' });
const podB = answered({ 'pod-b': 'node' });
const both = answered({ 'pod-a': 'node', 'pod-b': 'node' });
const other = clusterIp(11);
const toOther = at(other, 80);
const names = [{ addresses: ['pod-b.example'], conditions: { ready: true } }];

export const sliceStories: readonly Story[] = [
  storyOf('An endpoint that is in two slices counts once, as ready if one says so', '12.16 12.17', [
    apply(
      service('web'),
      ...slices('web', [{ at: 'pod-a', ready: false }, 'pod-b'], { suffix: '-1' }),
      ...slices('web', ['pod-a'], { suffix: '-2' }),
      ...slices('web', [{ at: 'pod-b', ready: false, terminating: true }], { suffix: '-3' }),
    ),
    connect('client', toVip, both),
    remove(...slices('web', [], { suffix: '-2' })),
    connect('client', toVip, podB),
    remove(...slices('web', [], { suffix: '-1' })),
    connect('client', toVip, refused),
  ]),
  {
    name: 'Of an endpoint that terminates in one slice and not in another the latter counts',
    covers: ['12.17'],
    steps: [
      apply(
        service('web'),
        ...slices('web', [{ at: 'pod-a', ready: false, serving: true, terminating: true }], {
          suffix: '-1',
        }),
      ),
      connect('client', toVip, podA),
      apply(...slices('web', [{ at: 'pod-a', ready: false, serving: true }], { suffix: '-2' })),
      connect('client', toVip, refused),
      remove(...slices('web', [], { suffix: '-2' })),
      connect('client', toVip, podA),
    ],
  },
  storyOf('One address on two ports is two endpoints', '12.18', [
    apply(
      service('web'),
      ...slices('web', ['pod-a'], { ports: [{ port: 8080 }], suffix: '-1' }),
      ...slices('web', ['pod-a'], { ports: [{ port: 9090 }], suffix: '-2' }),
    ),
    connect('client', toVip, answered({ 'pod-a:8080': 'node', 'pod-a:9090': 'node' })),
  ]),
  storyOf('Ports without a number or with another name give no endpoints and do no harm', '12.19', [
    apply(
      service('web'),
      ...slices('web', ['pod-a'], { ports: [{ port: null }, { port: 8080 }], suffix: '-1' }),
      ...slices('web', ['pod-b'], { ports: [{ name: 'http', port: 8080 }], suffix: '-2' }),
      { ...slice('IPv4', 'web', ['pod-b'], { suffix: '-3' }), ports: [{ port: 8080 }] },
      { ...slice('IPv6', 'web', ['pod-b'], { suffix: '-3' }), ports: [{ port: 8080 }] },
    ),
    connect('client', toVip, podA),
  ]),
  storyOf('A slice with host names, and one of another Service, give no endpoints', '12.22 12.23', [
    apply(service('web'), ...slices('web', ['pod-a']), ...slices('shop', ['pod-b']), {
      ...slice('IPv4', 'web', [], { suffix: '-names' }),
      addressType: 'FQDN',
      endpoints: names,
    }),
    connect('client', toVip, podA),
  ]),
  storyOf('Endpoints may come before their Service, and stay when it goes', '12.25 12.35', [
    apply(...slices('web', ['pod-a'])),
    connect('client', toVip, unallocated),
    apply(service('web')),
    connect('client', toVip, podA),
    remove(service('web')),
    connect('client', toVip, unallocated),
    apply(service('web', { clusterIp: other })),
    connect('client', toOther, podA),
  ]),
  storyOf('The slices of a Service go one by one, and then it has no endpoints', '12.24', [
    apply(
      service('web'),
      ...slices('web', ['pod-a'], { suffix: '-1' }),
      ...slices('web', ['pod-b'], { suffix: '-2' }),
    ),
    connect('client', toVip, both),
    remove(...slices('web', [], { suffix: '-1' })),
    connect('client', toVip, podB),
    remove(...slices('web', [], { suffix: '-2' })),
    connect('client', toVip, refused),
  ]),
  storyOf('The Service of the API servers keeps its last endpoints until it gets others', '4.3', [
    apply(service('kubernetes'), ...slices('kubernetes', ['pod-a'])),
    connect('client', toVip, podA),
    apply(...slices('kubernetes', [])),
    connect('client', toVip, podA),
    remove(...slices('kubernetes', [])),
    connect('client', toVip, podA),
    apply(...slices('kubernetes', ['pod-b'])),
    connect('client', toVip, podB),
  ]),
  storyOf('Of an endpoint with several addresses only the first is used', '4.3', [
    apply(service('web'), ...slices('web', [{ at: [POD_A_IP, POD_B_IP] }])),
    connect('client', toVip, podA),
  ]),
  {
    ...storyOf('An address with leading zeroes is the address without them', '12.29', [
      apply(
        service('web'),
        slice('IPv4', 'web', [{ at: { IPv4: '010.244.001.002' }, nodeName: 'node' }]),
      ),
      connect('client', toVip, podA),
      connect('pod-a', toVip, podA),
    ]),
    servers: [{ actor: 'pod-a', at: at(POD_A_IP, 8080) }],
    families: ['IPv4'],
  },
];
