/** What a new process takes over, and what it changes (behaviour document 12.48). */
import { NODE_SECOND_IP } from '../lab/addresses.ts';
import { settings as detector, service, slices } from '../lab/objects.ts';
import {
  answered,
  apply,
  at,
  connect,
  open,
  refused,
  reset,
  restart,
  resume,
  type Story,
  storyOf,
} from '../lab/story.ts';
import { externalLocal, frontends, NODE_PORT, reachable } from './common.ts';
import { endsWithTheProcess, startsWithAllAddresses } from './differences.ts';

const { clusterIp, loadBalancer, nodePort } = frontends;
const all = slices('web', ['pod-a', 'pod-b', 'pod-c']);
const byAll = answered({ 'pod-a': 'node', 'pod-b': 'node', 'pod-c': 'node' });

export const restartStories: readonly Story[] = [
  {
    ...storyOf('Open connections, downloads and UDP flows do not notice a restart', '12.48', [
      apply(
        service('web', {
          ports: [
            { name: 'tcp', port: 80 },
            { name: 'udp', port: 80, protocol: 'UDP' },
          ],
        }),
        ...slices('web', ['pod-a'], {
          ports: [
            { name: 'tcp', port: 8080 },
            { name: 'udp', port: 8080, protocol: 'UDP' },
          ],
        }),
      ),
      open('tcp', 'client', clusterIp, answered({ 'pod-a': 'node' })),
      open('udp', 'client', { ...clusterIp, protocol: 'UDP' }, answered({ 'pod-a': 'node' })),
      open('big', 'pod-b', clusterIp, answered({ 'pod-a': 'own' }), { download: 'endless' }),
      restart(),
      resume('tcp', answered({ 'pod-a': 'node' })),
      resume('udp', answered({ 'pod-a': 'node' })),
      resume('big', answered({ 'pod-a': 'own' })),
    ]),
    differsIn: endsWithTheProcess,
  },
  storyOf('After a restart everything is as before, and changes continue', '12.47 12.48', [
    apply(reachable(externalLocal), service('empty', { clusterIp: second() }), ...all),
    restart(),
    connect('client', clusterIp, byAll),
    connect('client', loadBalancer, answered({ 'pod-a': 'own', 'pod-b': 'own' })),
    connect('client', at(second(), 80), refused),
    apply(reachable(), ...slices('web', ['pod-c'])),
    connect('client', loadBalancer, answered({ 'pod-c': 'node' })),
    connect('client', nodePort, answered({ 'pod-c': 'node' })),
    restart(),
    connect('client', nodePort, answered({ 'pod-c': 'node' })),
    apply(...slices('web', [])),
    connect('client', nodePort, refused),
  ]),
  {
    ...storyOf('A restart with other settings puts them into force', '5.5 5.9', [
      apply(reachable(), ...all),
      connect('client', at(NODE_SECOND_IP, NODE_PORT), reset),
      restart({ ...detector, nodePortAddresses: ['0.0.0.0/0', '::/0'] }),
      connect('client', at(NODE_SECOND_IP, NODE_PORT), byAll),
      restart({ ...detector, masqueradeAll: true, masqueradeBit: 3 }),
      connect('client', at(NODE_SECOND_IP, NODE_PORT), reset),
      connect('pod-b', clusterIp, byAll),
      restart({ detectLocalMode: 'ClusterCIDR' }),
      connect('pod-b', clusterIp, answered({ 'pod-a': 'own', 'pod-b': 'node', 'pod-c': 'own' })),
      connect('client', nodePort, byAll),
    ]),
    differsIn: startsWithAllAddresses,
    settings: detector,
  },
];

function second() {
  return { IPv4: '10.96.0.11', IPv6: 'fd00:96::b' };
}
