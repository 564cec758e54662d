/** Services that change, move, are handed over, and want the same (behaviour document 5.1, 5.2). */
import { clusterIp } from '../lab/addresses.ts';
import { type KubernetesObject, service, slices } from '../lab/objects.ts';
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
import { frontends, NODE_PORT, reachable, unallocated, unknownPort, vip } from './common.ts';
import { keepsAddressesForConnections } from './differences.ts';

const { clusterIp: toVip, nodePort, loadBalancer } = frontends;
const podA = answered({ 'pod-a': 'node' });
const podB = answered({ 'pod-b': 'node' });
const other = clusterIp(11);
const toOther = at(other, 80);

const changes: readonly Story[] = [
  storyOf('A Service that is deleted and made again with another ClusterIP moves', '12.46 12.47', [
    apply(reachable(), ...slices('web', ['pod-a'])),
    remove(reachable()),
    apply(reachable({}, { clusterIp: other })),
    connect('client', toOther, podA),
    connect('client', nodePort, podA),
    connect('client', toVip, unallocated),
  ]),
  storyOf('A Service whose ClusterIP changes in one step moves', '5.2', [
    apply(reachable(), ...slices('web', ['pod-a'])),
    apply(reachable({}, { clusterIp: other })),
    connect('client', toOther, podA),
    connect('client', toVip, unallocated),
    connect('client', loadBalancer, podA),
  ]),
  storyOf('Two Services that change ClusterIPs with each other in one step do so', '5.2', [
    apply(
      service('web'),
      service('shop', { clusterIp: other }),
      ...slices('web', ['pod-a']),
      ...slices('shop', ['pod-b']),
    ),
    connect('client', toVip, podA),
    apply(service('web', { clusterIp: other }), service('shop')),
    connect('client', toVip, podB),
    connect('client', toOther, podA),
  ]),
  storyOf('A port that is renamed follows the endpoints of its new name', '12.26', [
    apply(
      service('web', { ports: [{ name: 'http', port: 80, nodePort: NODE_PORT }] }),
      ...slices('web', ['pod-a'], { ports: [{ name: 'http', port: 8080 }] }),
    ),
    connect('client', toVip, podA),
    apply(service('web', { ports: [{ name: 'www', port: 80, nodePort: NODE_PORT }] })),
    connect('client', toVip, refused),
    connect('client', nodePort, refused),
    apply(...slices('web', ['pod-a'], { ports: [{ name: 'www', port: 8080 }] })),
    connect('client', toVip, podA),
    connect('client', nodePort, podA),
  ]),
  storyOf('A Service port that moves to another number moves with its endpoints', '5.2', [
    apply(service('web', { ports: [{ port: 80 }] }), ...slices('web', ['pod-a'])),
    apply(service('web', { ports: [{ port: 8000 }] })),
    connect('client', at(vip, 8000), podA),
    connect('client', toVip, unknownPort),
  ]),
];

const notOurs: readonly Story[] = [
  {
    name: 'Headless Services, ExternalName and those of another proxy are left alone',
    covers: ['5.1', '12.30'],
    steps: [
      apply(
        service('web'),
        service('headless', { spec: { clusterIP: 'None', clusterIPs: ['None'] } }),
        service('name', {
          clusterIp: clusterIp(12),
          spec: { type: 'ExternalName', externalName: 'example.org' },
        }),
        service('theirs', {
          clusterIp: clusterIp(13),
          labels: { 'service.kubernetes.io/service-proxy-name': 'other' },
        }),
        ...['web', 'headless', 'name', 'theirs'].flatMap((name) => slices(name, ['pod-a'])),
      ),
      connect('client', toVip, podA),
      connect('client', at(clusterIp(12), 80), unallocated),
      connect('client', at(clusterIp(13), 80), unallocated),
    ],
  },
  {
    ...storyOf('A Service is handed over to another proxy and back while it lives', '5.1', [
      apply(service('web'), ...slices('web', ['pod-a'])),
      connect('client', toVip, podA),
      apply(service('web', { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } })),
      connect('client', toVip, unallocated),
      apply(service('web')),
      connect('client', toVip, podA),
    ]),
    differsIn: keepsAddressesForConnections,
  },
];

/** `createdS` seconds after the epoch. */
function created(object: KubernetesObject, createdS: number): KubernetesObject {
  const creationTimestamp = new Date(createdS * 1000).toISOString();
  return { ...object, metadata: { ...object.metadata, creationTimestamp } as never };
}

const shop = service('shop', {
  clusterIp: other,
  ports: [{ port: 80, nodePort: NODE_PORT }],
  externalIps: [frontends.externalIp.addresses as never],
});

const claims: readonly Story[] = [
  {
    name: 'Of Services that share an external IP and port, and a node port, the older has them',
    covers: ['5.2'],
    steps: [
      apply(created(shop, 2000), ...slices('shop', ['pod-b'])),
      connect('client', frontends.externalIp, podB),
      apply(created(reachable(), 1000), ...slices('web', ['pod-a'])),
      connect('client', frontends.externalIp, podA),
      connect('client', nodePort, podA),
      connect('client', toOther, podB),
      remove(reachable()),
      connect('client', frontends.externalIp, podB),
      connect('client', nodePort, podB),
    ],
  },
  storyOf("An external IP that is another Service's ClusterIP steals nothing", '5.2', [
    apply(
      created(service('thief', { clusterIp: other, externalIps: [vip] }), 1000),
      created(service('web'), 2000),
      ...slices('thief', ['pod-b']),
      ...slices('web', ['pod-a']),
    ),
    connect('client', toVip, podA),
    connect('pod-c', toVip, answered({ 'pod-a': 'own' })),
    connect('client', toOther, podB),
  ]),
];

export const changeStories: readonly Story[] = [...changes, ...notOurs, ...claims];
