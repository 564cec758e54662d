/** Broken clusters: what is in them, and a question whose answer names what is wrong. */
import type { ProblemReason } from '../../../src/ask/problem-reasons.ts';
import type { Route } from '../../../src/host/reach.ts';
import { NF_INET, VERDICT } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import type { Family } from '../../../src/net/address.ts';
import type { FakeEntry } from '../../fake/conntrack.ts';
import type { ClosableKernel, Running } from '../agent/running.ts';

export interface BrokenCluster {
  readonly name: string;
  readonly manifests: string;
  readonly flags?: readonly string[];
  readonly to: string;
  readonly from?: string;
  /** A connection that connection tracking has. */
  readonly conntrack?: FakeEntry;
  /** More of them. */
  readonly tracked?: readonly FakeEntry[];
  /** What others did in the kernel. */
  readonly kernel?: (kernel: ClosableKernel) => Promise<void> | void;
  /** What happens there when all is in force. */
  readonly later?: (kernel: ClosableKernel) => void;
  /** Routes of the node by the address of an endpoint; others are found. */
  readonly routes?: Readonly<Record<string, Route>>;
  /** The command that names the cause; default: explain. */
  readonly ask?: readonly string[];
  /** Files of /proc and /sys. */
  readonly host?: Readonly<Record<string, string>>;
  /** Sockets of programs, as `boundSockets` takes them. */
  readonly programs?: readonly string[];
  /** The families that the kernel has enabled; default: both. */
  readonly families?: readonly Family[];
  /** What happens between two questions, with files that may be changed. */
  readonly changes?: (app: Running, files: Record<string, string>) => Promise<void> | void;
  /** What the answer says. */
  readonly outcome: 'endpoint' | 'rejected' | 'dropped' | 'nobody' | 'refused';
  readonly cause: string;
  /** What `problems` says, if it is not of the Service. */
  readonly says?: string | undefined;
  /** The problems of Service default/web; default: none. */
  readonly reasons?: readonly ProblemReason[];
  /** In the kernel's words. */
  readonly object?: string;
}

export const node = `
apiVersion: v1
kind: Node
metadata: { name: node-a, labels: { topology.kubernetes.io/zone: zone-a } }
spec: { podCIDRs: [10.244.0.0/24] }
status: { addresses: [{ type: InternalIP, address: 192.168.7.7 }] }
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: { name: kubernetes }
spec: { cidrs: [10.96.0.0/16] }
`;

/** Service default/web at 10.96.0.1:80, and whatever else its spec has. */
export function web(spec = '', metadata = ''): string {
  return `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default, uid: u ${metadata && `, ${metadata}`} }
spec:
  clusterIP: 10.96.0.1
  selector: { app: web }
  ports: [{ name: http, port: 80, targetPort: 8080, nodePort: 30080 }]
  type: LoadBalancer
  ${spec}
status: { loadBalancer: { ingress: [{ ip: 203.0.113.80 }] } }
---`;
}

export function endpoints(list: string, port = '{ name: http, port: 8080 }'): string {
  return `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: default, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [${port}]
endpoints:
${list}
---`;
}

export const here =
  '  - { addresses: [10.244.0.5], nodeName: node-a, conditions: { ready: true } }';
export const there =
  '  - { addresses: [10.244.1.6], nodeName: node-b, conditions: { ready: true } }';

export const pods = ['--cluster-cidr=10.244.0.0/16'];

/** An endpoint of another zone, hinted for it, and one of ours. */
const hinted = `${there.replace('nodeName', 'zone: zone-b, hints: { forZones: [{ name: zone-b }] }, nodeName')}
${here.replace('nodeName', 'zone: zone-a, hints: { forZones: [{ name: zone-a }] }, nodeName')}`;

function conditioned(conditions: string): string {
  return here.replace('ready: true', conditions);
}

const ranged = web('', 'annotations: { fairlead.io/port-range: 80-90 }');

/** The destination is 10.96.0.1:80 where a cluster names none. */
type Described = Omit<BrokenCluster, 'name' | 'to'> & Partial<Pick<BrokenCluster, 'to'>>;

/** By name. */
export function described(clusters: Readonly<Record<string, Described>>): readonly BrokenCluster[] {
  return Object.entries(clusters).map(([name, it]) => ({ name, to: '10.96.0.1:80', ...it }));
}

export const brokenClusters = described({
  'nothing is wrong': {
    manifests: web() + endpoints(here) + node,
    flags: pods,
    outcome: 'endpoint',
    cause: 'It is not masqueraded: the client is in 10.244.0.0/16.',
    object: 'map ip fairlead services { 10.96.0.1 . tcp . 80 : goto cluster-2-',
  },
  'the port of the slice has another name': {
    manifests: web() + endpoints(here, '{ name: web, port: 8080 }') + node,
    reasons: ['port_name'],
    outcome: 'rejected',
    cause:
      'No EndpointSlice of IPv4 has a port named "http" for TCP, they have "web" (8080/TCP): ' +
      'targetPort may name a port that no container has.',
    object: 'map ip fairlead no-endpoint-services { 10.96.0.1 . tcp . 80 : goto reject-chain }',
  },
  'the selector matches nothing': {
    manifests: web() + endpoints('  []') + node,
    reasons: ['no_endpoints'],
    to: 'default/web:http',
    outcome: 'rejected',
    cause: 'Its EndpointSlices name no endpoint: its selector matches no pod.',
  },
  'no controller makes EndpointSlices': {
    manifests: web() + node,
    reasons: ['no_slices'],
    to: 'default/web:80',
    outcome: 'rejected',
    cause:
      'No EndpointSlice belongs to it, although it has a selector: kube-controller-manager has made ' +
      'none with the label kubernetes.io/service-name: web.',
  },
  'an endpoint is the ClusterIP of another Service': {
    manifests:
      web() +
      web()
        .replaceAll('name: web', 'name: target')
        .replace('10.96.0.1', '10.96.0.2')
        .replace('nodePort: 30080', '')
        .replace('203.0.113.80', '203.0.113.81') +
      endpoints(here.replace('10.244.0.5', '10.96.0.2')) +
      node,
    reasons: ['service_address'],
    outcome: 'endpoint',
    cause:
      'Endpoint 10.96.0.2 is not a pod: it is the ClusterIP of default/target, in ServiceCIDR 10.96.0.0/16.',
  },
  'an endpoint lies in a ServiceCIDR': {
    manifests: web() + endpoints(here.replace('10.244.0.5', '10.96.7.7')) + node,
    reasons: ['service_address'],
    outcome: 'endpoint',
    cause: 'Endpoint 10.96.7.7 is not a pod: it is in ServiceCIDR 10.96.0.0/16.',
  },
  'endpoints name no node, and the policy is Local': {
    manifests:
      web('externalTrafficPolicy: Local') +
      endpoints(here.replace('nodeName: node-a, ', '')) +
      node,
    reasons: ['no_local_endpoints', 'unknown_node'],
    to: '192.168.7.7:30080',
    from: 'outside',
    outcome: 'dropped',
    cause:
      '1 of 1 endpoint names no node (nodeName): no node counts it as its own, and externalTrafficPolicy is Local.',
  },
  'all EndpointSlices are of the other family': {
    manifests:
      web() +
      endpoints(here.replace('10.244.0.5', 'fd00::5')).replace(
        'addressType: IPv4',
        'addressType: IPv6',
      ) +
      node,
    reasons: ['other_family'],
    outcome: 'rejected',
    cause: 'It has no endpoint of IPv4: all its EndpointSlices are of IPv6.',
  },
  'policy Local has no endpoint on this node': {
    manifests: web('externalTrafficPolicy: Local') + endpoints(there) + node,
    reasons: ['no_local_endpoints'],
    to: '192.168.7.7:30080',
    from: 'outside',
    outcome: 'dropped',
    cause:
      'externalTrafficPolicy is Local, and no endpoint of this node can be used. ' +
      '1 of 1 endpoint is left out: it is on another node.',
    object: 'map ip fairlead no-endpoint-nodeports { tcp . 30080 : drop }',
  },
  'internal policy Local has no endpoint on this node': {
    manifests: web('internalTrafficPolicy: Local') + endpoints(there) + node,
    reasons: ['no_local_endpoints'],
    outcome: 'dropped',
    cause: 'internalTrafficPolicy is Local',
    object: 'map ip fairlead no-endpoint-services { 10.96.0.1 . tcp . 80 : drop }',
  },
  'source ranges leave the client out': {
    manifests: web('loadBalancerSourceRanges: [198.51.100.0/24]') + endpoints(there) + node,
    to: '203.0.113.80:80',
    from: '203.0.113.9',
    outcome: 'dropped',
    cause:
      'The client 203.0.113.9 is dropped: it is in none of loadBalancerSourceRanges (198.51.100.0/24)',
    object: 'map ip fairlead firewall-ips { 203.0.113.80 . tcp . 80 : goto firewall-',
  },
  'source ranges leave the client of a node port out': {
    manifests:
      web(
        'loadBalancerSourceRanges: [198.51.100.0/24]',
        'annotations: { fairlead.io/source-ranges: all }',
      ) +
      endpoints(there) +
      node,
    to: '192.168.7.7:30080',
    from: '203.0.113.9',
    outcome: 'dropped',
    cause:
      'The client 203.0.113.9 is dropped: it is in none of loadBalancerSourceRanges (198.51.100.0/24)',
    object: 'map ip fairlead firewall-nodeports { tcp . 30080 : jump firewall-',
  },
  'another Service has the address': {
    manifests:
      web().replace('uid: u', 'uid: u, creationTimestamp: "2026-01-02T00:00:00Z"') +
      web().replaceAll('name: web', 'name: old').replace('nodePort: 30080', '') +
      endpoints(here) +
      node,
    reasons: ['address_taken'],
    to: 'default/web:80',
    outcome: 'rejected',
    cause: 'default/web asks for 10.96.0.1:80/TCP, but default/old has it: its claim is better.',
  },
  'the Service is headless': {
    manifests: web().replace('clusterIP: 10.96.0.1', 'clusterIP: None') + endpoints(here) + node,
    to: 'default/web:80',
    outcome: 'refused',
    cause: 'it is headless: DNS gives the addresses of its endpoints',
  },
  'the Service is of type ExternalName': {
    manifests: web().replace('LoadBalancer', 'ExternalName\n  externalName: db.example') + node,
    to: 'default/web:80',
    outcome: 'refused',
    cause: 'it is of type ExternalName: only DNS knows it, as "db.example"',
  },
  "the Service has another proxy's label": {
    manifests: web('', 'labels: { service.kubernetes.io/service-proxy-name: cilium }') + node,
    outcome: 'nobody',
    cause:
      'it is of default/web, which is not served here: its label ' +
      'service.kubernetes.io/service-proxy-name gives it to the proxy "cilium"',
  },
  'the address does not accept node ports': {
    manifests: web() + endpoints(here) + node,
    flags: ['--nodeport-addresses=192.168.8.0/24'],
    to: '192.168.7.7:30080',
    from: 'outside',
    outcome: 'nobody',
    cause: '30080 is the node port of default/web:http, but 192.168.7.7 is not among the addresses',
  },
  'no endpoint is ready': {
    manifests: web() + endpoints(conditioned('ready: false')) + node,
    reasons: ['not_ready'],
    outcome: 'rejected',
    cause: 'Its only endpoint is not ready.',
  },
  'the protocol is another one': {
    manifests: web() + endpoints(here) + node,
    to: '10.96.0.1:80/UDP',
    outcome: 'nobody',
    cause: '10.96.0.1 is the ClusterIP of default/web, which has http 80/TCP, not 80/UDP',
    object: 'set ip fairlead cluster-ips',
  },
  'the port is another one': {
    manifests: web() + endpoints(here) + node,
    to: '10.96.0.1:8080',
    outcome: 'nobody',
    cause: '10.96.0.1 is the ClusterIP of default/web, which has http 80/TCP, not 8080',
    object: 'set ip fairlead cluster-ips',
  },
  'the port is in a range': {
    manifests: ranged + endpoints(here, '{ name: http, port: 80 }') + node,
    flags: pods,
    to: '10.96.0.1:88',
    outcome: 'endpoint',
    cause: 'Its only endpoint is taken: 10.244.0.5:88.',
    object: 'map ip fairlead ranges { 10.96.0.1 . tcp . 0 : goto ports-80-90-range-cluster-2-',
  },
  'the port is behind a range': {
    manifests: ranged + endpoints(here, '{ name: http, port: 80 }') + node,
    to: '10.96.0.1:91',
    outcome: 'nobody',
    cause: 'which has http 80/TCP, not 91',
  },
  'a range has no endpoint': {
    manifests: ranged + endpoints('  []') + node,
    to: '10.96.0.1:88',
    reasons: ['no_endpoints'],
    outcome: 'rejected',
    cause: 'The packet is rejected.',
  },
  'a range has another targetPort': {
    manifests: ranged + endpoints(here) + node,
    to: '10.96.0.1:88',
    ask: ['problems'],
    reasons: ['port_range'],
    outcome: 'nobody',
    cause: 'its targetPort is 8080, and the range keeps ports: both must be 80',
  },
  'a range begins with no port of the Service': {
    manifests: ranged.replace('80-', '70-') + endpoints(here, '{ name: http, port: 80 }') + node,
    to: '10.96.0.1:88',
    ask: ['problems'],
    reasons: ['port_range'],
    outcome: 'nobody',
    cause: 'the first a port of the Service',
  },
  'the ClusterIP is not allocated': {
    manifests: web() + endpoints(here) + node,
    to: '10.96.3.3:80',
    outcome: 'nobody',
    cause: 'it is not allocated in ServiceCIDR 10.96.0.0/16',
    object: 'set ip fairlead service-cidrs',
  },
  'a ServiceCIDR is missing': {
    manifests: web() + endpoints(here) + node.slice(0, node.indexOf('---')),
    to: '10.96.3.3:80',
    outcome: 'nobody',
    cause: 'no ServiceCIDR is known to which it could belong',
  },
  'an endpoint reaches itself': {
    manifests: web() + endpoints(here) + node,
    flags: pods,
    from: '10.244.0.5',
    outcome: 'endpoint',
    cause: 'If the endpoint is the client itself, it is masqueraded, so that it can answer.',
    object: 'set ip fairlead hairpin',
  },
  'hints leave a zone out': {
    manifests: web() + endpoints(hinted) + node,
    outcome: 'endpoint',
    cause: '1 of 2 endpoints is left out: it is hinted for other zones.',
  },
  'only endpoints are left that terminate': {
    manifests:
      web() + endpoints(conditioned('ready: false, serving: true, terminating: true')) + node,
    outcome: 'endpoint',
    cause: 'Where none is ready, endpoints are used that terminate and still serve.',
  },
  'connection tracking leads to an endpoint that has gone': {
    manifests: web() + endpoints(here) + node,
    conntrack: {
      protocol: 'TCP',
      from: '10.244.0.9:4711',
      to: '10.96.0.1:80',
      answeredBy: '10.244.9.9:8080',
    },
    from: '10.244.0.9',
    outcome: 'endpoint',
    cause:
      'Connection tracking has 1 connection to 10.96.0.1:80/TCP that leads to none of its endpoints ' +
      '(10.244.0.9 to 10.244.9.9:8080), by an earlier state of it or by a rule of another program',
  },
  'a chain of others drops what is forwarded': {
    manifests: web() + endpoints(here) + node,
    kernel: async (kernel) => {
      const filter = new RecordWriter(nftOps);
      const at = { family: 1, table: 'guard' };
      filter.write('tableAdd', { ...at, comment: '' });
      filter.write('baseChainAdd', {
        ...at,
        ...{ chain: 'forward', type: 'filter', hook: NF_INET.FORWARD, priority: 0 },
        ...{ policy: VERDICT.drop, comment: '' },
      });
      await kernel.apply(filter.finish());
    },
    outcome: 'endpoint',
    reasons: ['rule_in_the_way'],
    cause:
      'Chain inet guard forward of another program drops packets that this node forwards to endpoint 10.244.0.5:8080/TCP, because none of its rules accepts them.',
  },
  'the node does not forward': {
    manifests: web() + endpoints(here) + node,
    host: { '/proc/sys/net/ipv4/ip_forward': '0' },
    says: 'net.ipv4.ip_forward is 0: the node forwards no packets',
    outcome: 'endpoint',
    cause: 'net.ipv4.ip_forward is 0: the node forwards no packets of pods to endpoints.',
  },
  'the kernel refuses a Service': {
    manifests: web() + endpoints(here) + node,
    kernel: (kernel) => {
      kernel.failNext({ code: 'ENOSPC', forKey: '10.96.0.1', times: Number.POSITIVE_INFINITY });
    },
    reasons: ['refused_by_kernel'],
    outcome: 'nobody',
    cause: 'The kernel refuses default/web:http (tried once): ',
  },
  'session affinity keeps a client at one endpoint': {
    manifests: web('sessionAffinity: ClientIP') + endpoints(`${here}\n${there}`) + node,
    later: (kernel) => {
      const client = { saddr: '10.244.0.9', iif: 'cni0', nodeAddresses: ['192.168.7.7'] };
      kernel.evaluate({ ...client, daddr: '10.96.0.1', protocol: 'TCP', dport: 80, random: 1 });
    },
    from: '10.244.0.9',
    outcome: 'endpoint',
    cause: 'Session affinity: 10.244.0.9 gets 10.244.1.6:8080, which it had within 10800 s.',
    object: 'map ip fairlead affinity-default/web/tcp/http',
  },
  'the operator does not allow an external IP': {
    manifests: web('externalIPs: [198.51.100.7]') + endpoints(here) + node,
    flags: ['--external-ip-cidrs=192.0.2.0/24'],
    to: '198.51.100.7:80',
    outcome: 'nobody',
    cause:
      'default/web asks for it and does not get it: external IP 198.51.100.7 is not served: ' +
      'no block of --external-ip-cidrs holds it',
  },
});
