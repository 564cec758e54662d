/** What goes wrong at night, and what does not: what `fairlead problems` says of each. */
import { NF_INET } from '../../../src/kernel/nft/constants.ts';
import { matchPort } from '../../../src/kernel/nft/ports.ts';
import { drop, matchInterface, reject, type Statement } from '../../../src/kernel/nft/rule.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { parseAddress } from '../../../src/net/address.ts';
import type { FakeEntry } from '../../fake/conntrack.ts';
import { said } from './asking.ts';
import { changesOf } from './broken-cluster-app.ts';
import { type BrokenCluster, endpoints, here, node, pods, there, web } from './broken-clusters.ts';
import {
  accept,
  type Chain,
  clusterIP,
  early,
  endpoint,
  forward,
  from,
  ofNode,
  table,
  tcp,
  to,
} from './foreign-tables.ts';
import { aged, hinted, older, other, younger } from './more-broken-clusters.ts';

type Rest = Partial<BrokenCluster>;

const both = `${here}\n${there}`;
const usual = web() + endpoints(both);

/** Service default/web with two endpoints, and what differs. Undefined: nothing is said. */
function row(name: string, says: string | undefined, rest: Rest = {}): BrokenCluster {
  const question = { to: '10.96.0.1:80', outcome: 'endpoint', cause: says ?? '' } as const;
  return { name, says, ...question, manifests: usual + node, flags: pods, ...rest };
}

/** These objects, and the Node. */
const of = (...manifests: string[]): Rest => ({ manifests: manifests.join('') + node });
const withNode = (before: string, after: string): Rest => ({
  manifests: usual + node.replace(before, after),
});
/** These objects come later. */
const later = (...manifests: string[]): Rest => ({
  changes: (app) => app.source.say(...changesOf(manifests.join(''))),
});
/** Endpoints that replace each other, a second each. */
const inTurn = (count: number, list: (i: number) => string): Rest => ({
  changes: async (app) => {
    for (let i = 0; i < count; i += 1) {
      app.source.say(...changesOf(endpoints(list(i))));
      await app.clock.pass(1000);
    }
  },
});
const flipping = (i: number) => (i % 2 === 0 ? here : both);

/** EndpointSlice default/NAME. */
const slice = (name: string, service: string, list: string) =>
  endpoints(list)
    .replace('name: web-1', `name: ${name}`)
    .replace('service-name: web', `service-name: ${service}`);
const pod = (one: string, name: string) =>
  one.replace('nodeName', `targetRef: { kind: Pod, name: ${name} }, nodeName`);
/** Service default/shop with this endpoint. */
const shop = (one: string) => other('shop') + slice('shop-1', 'shop', one);
const ending = (one: string, serving: boolean) =>
  one.replace('ready: true', `ready: false, serving: ${serving}, terminating: true`);
const onNode = (one: string) => one.replace('10.244.0.5', '192.168.7.8');
const local = web('externalTrafficPolicy: Local\n  healthCheckNodePort: 31000');
const dual = web().replace('clusterIP: 10.96.0.1', "clusterIPs: [10.96.0.1, 'fd00:96::1']");
const six = slice('web-6', 'web', here.replace('10.244.0.5', 'fd00:244::5'));
const dualEndpoints = endpoints(here) + six.replace(': IPv4', ': IPv6');
const udp = usual.replaceAll('name: http,', 'name: http, protocol: UDP,');

/** A table of another program. */
const rules = (chain: Chain): Rest => ({
  kernel: async (kernel) => {
    await kernel.apply(table({ in: chain }));
  },
});
/** `dnat to 10.244.1.99` */
const dnat: Statement = (out) => {
  out.write('immediateData', { register: 1, data: Uint8Array.of(10, 244, 1, 99) });
  const at = { addressMin: 1, addressMax: 1, portMin: 0, portMax: 0 };
  out.write('nat', { type: 1, family: 2, ...at, flags: 1 });
};
const client = from('10.244.0.9/32');
const docker = [matchInterface('==', 'docker0'), accept];

/** Connections to the Service that were not answered. */
const tried = (count: number, answeredBy: string, more: Partial<FakeEntry> = {}): FakeEntry[] =>
  Array.from({ length: count }, (_, i) => ({
    ...{ protocol: 'TCP', from: `10.244.0.9:${5000 + i}`, to: '10.96.0.1:80', answeredBy },
    ...{ answered: false, ...more },
  }));
const remote = '10.244.1.6:8080';
const ofUDP = { protocol: 'UDP' } as const;
const answeredOnce = { answered: true };
const answered = { ...ofUDP, answered: true, from: '10.244.0.8:1' };

const sys = '/proc/sys/net';
const link = '/sys/class/net';
const file = (path: string, text: string): Rest => ({ host: { [path]: text } });
const tracked = (count: string): Rest => ({
  host: {
    [`${sys}/netfilter/nf_conntrack_count`]: count,
    [`${sys}/netfilter/nf_conntrack_max`]: '100',
  },
});
const bridge = (name: string, hairpin: string, filter: string): Rest => ({
  host: {
    [`${link}/${name}/bridge/bridge_id`]: '8000.0',
    [`${link}/${name}/brif/veth1/hairpin_mode`]: hairpin,
    [`${link}/${name}/brif/veth2/hairpin_mode`]: hairpin,
    [`${sys}/bridge/bridge-nf-call-iptables`]: filter,
  },
});
const died = (text: string): Rest => ({
  kernel: ({ links }) => links.died(parseAddress(text)!.bytes, 'eth0'),
});
/** A kube-proxy writes this chain, and is seen twice. */
const written = (table: string, chain: string): Rest => ({
  changes: async (app) => {
    app.kernel.foreign(chainOf(table, chain));
    await said(app, 'problems');
    await app.clock.pass(5000);
    await said(app, 'problems');
  },
});
const chainOf = (name: string, chain: string): Uint8Array => {
  const out = new RecordWriter(nftOps);
  out.write('tableAdd', { family: 2, table: name, comment: '' });
  out.write('chainAdd', { family: 2, table: name, chain, comment: '' });
  return out.finish();
};
/** The kernel counts as many connections to the Service that endpoints have refused. */
const refusedBy = (...counts: number[]): Rest => ({
  kernel: (kernel) => {
    const dump = kernel.dump.bind(kernel);
    const pair = [10, 96, 0, 1, 0, 80, 0, 0, 10, 244, 1, 6, 0x1f, 0x90, 0, 0];
    const packed = counts.flatMap((count, i) => [
      ...pair.with(10, 1 - i).with(11, 6 - i),
      ...[count, 0, 0, 0, 0, 0, 0, 0],
    ]);
    const entries = Uint8Array.from(packed);
    kernel.dump = async (asked, take) => {
      const isIt = asked.kind === 'elementsDump' && asked.table === 'fairlead-refused';
      if (!isIt || asked.family !== 2) return dump(asked, take);
      const record = {
        ...asked,
        kind: 'elements',
        count: counts.length,
        strange: 0,
        entries,
      } as const;
      return { records: [record], consistent: true };
    };
  },
});
/** The count of packets that the kernel has dropped by rp_filter grows by this. */
const refused = (count: number): Rest => ({
  ...file('/proc/net/netstat', 'TcpExt: IPReversePathFilter\nTcpExt: 7'),
  changes: (_, files) => {
    files['/proc/net/netstat'] = `TcpExt: IPReversePathFilter\nTcpExt: ${7 + count}`;
  },
});

export const situations: readonly BrokenCluster[] = [
  row('the node does not forward IPv6', 'net.ipv6.conf.all.forwarding is 0', {
    ...file(`${sys}/ipv6/conf/all/forwarding`, '0'),
    ...of(dual, dualEndpoints),
  }),
  row('netfilter does not see the bridge', 'iptables is 0: a pod gets no answer from an endpoint', {
    ...bridge('cni0', '1', '0'),
  }),
  row('pods do not reach themselves', 'bridge cni0 sends nothing back by the port that it came', {
    ...bridge('cni0', '0', '1'),
  }),
  row('rp_filter drops packets', 'rp_filter has dropped 10 packets since', refused(10)),
  row('conntrack is full', 'Connection tracking holds 95 of 100 connections.', tracked('95')),
  row('a program has the node port', 'A program of this node listens at node port 30080/TCP', {
    programs: ['tcp 0.0.0.0 30080'],
  }),
  row('the Node has an old address', 'no interface has the IPv4 address 192.0.2.9 of Node', {
    ...withNode('192.168.7.7', '192.0.2.9'),
  }),
  row('the Node has a family that the kernel has not', 'IPv6 is not served, of which the Node', {
    ...withNode('7.7 }', '7.7 }, { type: InternalIP, address: fd00::7 }'),
    families: ['IPv4'],
  }),
  row('the Service has such a family', 'and this node does not serve IPv6', {
    ...of(dual, endpoints(both)),
    families: ['IPv4'],
  }),
  row('clusterCIDR is of another cluster', '10.200.0.0/16 does not contain 10.244.0.0/24', {
    flags: ['--cluster-cidr=10.200.0.0/16'],
  }),
  row('clusterCIDR is missing', 'clusterCIDR is empty and detectLocalMode is ClusterCIDR', {
    flags: ['--detect-local-mode=ClusterCIDR'],
  }),
  row('podCIDRs are of the other family', 'have nothing of its primary IP family, IPv4', {
    ...withNode('[10.244.0.0/24]', "['fd00:244::/64']"),
  }),
  row('the zone of the Node has changed', 'EndpointSlices say zone-b for 1 endpoint of this node', {
    ...of(web(), endpoints(here.replace('nodeName', 'zone: zone-b, nodeName'))),
  }),
  row('an endpoint is silent', `Endpoint ${remote} of port http/TCP answers no connections`, {
    tracked: tried(5, remote),
  }),
  row('all endpoints of a node are silent', 'all of them are on node node-b', {
    ...of(web(), endpoints(`${both}\n${there.replace('1.6', '1.7')}`)),
    tracked: [...tried(5, remote), ...tried(5, '10.244.1.7:8080')],
  }),
  row('targetPort is wrong', `Endpoint ${remote} of port http/TCP refuses all connections`, {
    ...refusedBy(5),
  }),
  row('no endpoint has the targetPort', `Endpoints ${remote}, 10.244.0.5:8080 of port http/TCP r`, {
    ...refusedBy(3, 2),
  }),
  row('a next hop is down', 'endpoint 10.244.1.6: its next hop 192.168.7.8 does not answer', {
    ...died('192.168.7.8'),
  }),
  row('one of IPv6 is down', 'endpoint fd00:244::5: its next hop fe80::1 does not answer on eth0', {
    ...of(dual, dualEndpoints),
    ...died('fe80::1'),
  }),
  row('the kernel refuses everything', 'The kernel refuses what is written for IPv4: EPERM.', {
    changes: ({ kernel, source }) => {
      kernel.failNext({ code: 'EPERM', times: Number.POSITIVE_INFINITY });
      source.say(...changesOf(endpoints(here)));
    },
  }),
  row('kube-proxy runs as well', 'kube-proxy runs here as well: its table ip kube-proxy', {
    ...written('kube-proxy', 'services'),
  }),
  row('it runs in mode iptables', 'runs here as well: its chain ip mangle KUBE-PROXY-CANARY', {
    ...written('mangle', 'KUBE-PROXY-CANARY'),
  }),
  row('one of two resolvers is silent', `Endpoint ${remote} of port http/UDP answers no`, {
    ...of(udp),
    tracked: [...tried(5, remote, ofUDP), ...tried(1, '10.244.0.5:8080', answered)],
  }),
  row('an endpoint comes and goes', 'came and went 5 times since', inTurn(5, flipping)),
  row('a pod is denied by its address', 'pod 10.244.0.9 does not reach default/web:http', {
    ...rules({ ...forward, rules: [[client, drop]] }),
  }),
  row('a pod is denied one Service', 'drops packets of pods, and from outside, to 10.96.0.1:80', {
    ...of(usual, shop(here)),
    ...rules({ ...early, rules: [[client, to(clusterIP), drop]] }),
  }),
  row('connections of a pod are redirected', 'redirects packets of pods, and from outside, to', {
    ...rules({ ...early, priority: -150, type: 'nat', rules: [[client, to(clusterIP), dnat]] }),
  }),
  row('Docker drops what pods send', 'Chain ip guard in of another program drops packets of pods', {
    ...rules({ ...forward, policy: 0, rules: [docker] }),
  }),
  row('a firewall forwards to others', 'drops packets that this node forwards to endpoint 10.244', {
    ...rules({ ...forward, policy: 0, rules: [[to('10.244.9.0/24'), accept]] }),
  }),
  row('a firewall drops the ClusterIP', 'drops packets of pods, and from outside, to 10.96.0.1', {
    ...rules({ ...early, rules: [[to(clusterIP), drop]] }),
  }),
  row('a firewall drops the node port', 'drops packets of pods, and from outside, to *:30080/TCP', {
    ...rules({ ...early, rules: [[matchPort(30_080), drop]] }),
  }),
  row('a firewall drops what the node sends', 'drops packets of this node itself to 10.96.0.1', {
    ...rules({ ...ofNode, rules: [[to(clusterIP), drop]] }),
  }),
  row('a firewall drops what leaves', 'drops packets that leave this node to endpoint 10.244.1', {
    ...rules({ hook: NF_INET.POST_ROUTING, rules: [[to('10.244.1.0/24'), drop]] }),
  }),
  row('a firewall drops health checks', 'packets that come in to health-check node port 31000', {
    ...of(local, endpoints(here)),
    ...rules({ hook: NF_INET.LOCAL_IN, rules: [[tcp, matchPort(31_000), drop]] }),
  }),
  row('a firewall rejects an endpoint', 'rejects packets that this node forwards to endpoint 10', {
    ...rules({ ...forward, rules: [[to(endpoint), reject('IPv4')]] }),
  }),
  row('a pod has the address of one that is gone', 'and another in default/shop-1 of default/sh', {
    ...of(web(), endpoints(pod(here, 'old')), shop(pod(here, 'new'))),
  }),
  row('a controller has left a slice', 'one pod in EndpointSlice default/web-0, and another', {
    ...of(web(), endpoints(pod(here, 'new')), slice('web-0', 'web', pod(here, 'old'))),
  }),
  row('one family has no endpoint', 'It has no endpoint of IPv6', of(dual, endpoints(both))),
  row('an older Service has the balancer', 'loadBalancerIP 203.0.113.80:80, which default/shop', {
    ...of(aged(usual, younger), aged(shop(here), older).replace('.113.81', '.113.80')),
  }),
  row('no program makes slices', 'and it has no selector: another program has made none', {
    ...of(web().replace('selector: { app: web }', '')),
  }),
  row('another program names no endpoint', 'no selector, and another program makes them', {
    ...of(web().replace('selector: { app: web }', ''), endpoints('  []')),
  }),
  row('the last endpoint goes', 'its selector matches no pod', later(endpoints('  []'))),
  row('the label of a slice is changed', 'No EndpointSlice belongs to it', {
    changes: (app) => app.source.say({ kind: 'slice-gone', key: 'default/web-1' }),
  }),
];

const onNodes = of(
  web(),
  endpoints(pod(onNode(here), 'a')),
  shop(pod(onNode(here), 'b')).replace('port: 8080', 'port: 9100'),
);

/** Nothing is wrong, and nothing is said. */
export const healthy: readonly BrokenCluster[] = Object.entries<Rest>({
  'nothing happens': {},
  'a rollout': inTurn(20, (i) => both.replaceAll(/\d+\]/g, `${i + 10}]`)),
  'a drain: an endpoint ends, and serves until then': later(endpoints(ending(both, true))),
  'a second family comes': later(dual, dualEndpoints),
  'a family goes': {
    ...of(dual, dualEndpoints),
    changes: (app) => {
      app.source.say(...changesOf(web()), { kind: 'slice-gone', key: 'default/web-6' });
    },
  },
  'two Services have the same pod': of(web(), endpoints(pod(here, 'a')), shop(pod(here, 'a'))),
  'pods in the network of their node have ports of their own': onNodes,
  'pods and nodes are of one block': {
    manifests: onNodes.manifests!.replace('[10.244.0.0/24]', '[]'),
    flags: ['--cluster-cidr=192.168.0.0/16'],
  },
  'a pod ends, and another has its address': of(
    web(),
    endpoints(`${ending(pod(here, 'a'), false)}\n${there}`),
    shop(pod(here, 'b')),
  ),
  'a controller is late by a look': {
    ...of(web(), endpoints(pod(here, 'a')), shop(pod(here, 'b'))),
    ...later(endpoints(pod(there, 'a'))),
  },
  'policy Local, and load balancers see that no endpoint is here': of(local, endpoints(there)),
  'readiness fails four times': inTurn(4, flipping),
  'four clients wait for an endpoint': { tracked: tried(4, remote) },
  'four connections are refused': refusedBy(3, 1),
  'an endpoint refuses while it starts': {
    ...refusedBy(9),
    tracked: tried(1, remote, answeredOnce),
  },
  'a machine answers late': {
    ...died('192.168.7.8'),
    changes: ({ kernel: { links } }) => void links.dead.splice(0),
  },
  'a pod scans for machines': died('192.168.7.200'),
  'kube-proxy has left its table': {
    kernel: (kernel) => kernel.foreign(chainOf('kube-proxy', 'services')),
  },
  'a kubelet has its canary': written('mangle', 'KUBE-KUBELET-CANARY'),
  'a log server never answers': { ...of(udp), tracked: tried(9, remote, ofUDP) },
  'connection tracking is half full': tracked('50'),
  'a scanner makes up nine senders': refused(9),
  'a network policy drops what it does not accept': rules({
    ...{ ...forward, rules: [[from('10.244.0.0/16'), accept], [drop]] },
  }),
  'clients outside are denied': rules({ ...forward, rules: [[from('198.51.100.7/32'), drop]] }),
  'a firewall accepts the network of pods, and Docker runs': rules({
    ...{ ...forward, policy: 0, rules: [docker, [to('10.244.0.0/16'), accept]] },
  }),
  'a program has a node port at the loopback address': { programs: ['tcp 127.0.0.1 30080'] },
  'a bridge has containers that are no pods': bridge('docker0', '0', '1'),
  'zones fit hints': of(web(), endpoints(hinted(both, 'zone-a'))),
  'the load balancer has a name alone': {
    manifests: (usual + node).replace('{ ip: 203.0.113.80 }', '{ hostname: lb.example }'),
  },
}).map(([name, rest]) => row(name, undefined, rest));
