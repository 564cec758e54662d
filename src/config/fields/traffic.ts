import type { FieldTable } from './spec.ts';

const conntrack = 'KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration';
const notNegative = { kind: 'not-negative' } as const;

/** Which traffic is local, which addresses take node ports, and connection tracking. */
export const trafficFields = {
  detectLocalMode: {
    type: 'string',
    rules: 'ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix or empty (ClusterCIDR)',
    errorPath: 'DetectLocalMode',
    meaning: "How traffic of this node's pods is told from other traffic.",
  },
  'detectLocal.bridgeInterface': {
    type: 'string',
    rules: 'not empty in mode BridgeInterface',
    errorPath: 'DetectLocalConfiguration.InterfaceName',
    meaning: 'Bridge that the pods are on. For mode BridgeInterface.',
  },
  'detectLocal.interfaceNamePrefix': {
    type: 'string',
    rules: 'not empty in mode InterfaceNamePrefix',
    errorPath: 'DetectLocalConfiguration.InterfacePrefix',
    meaning: "How the names of the pods' interfaces begin. For mode InterfaceNamePrefix.",
  },
  clusterCIDR: {
    type: 'string',
    rules: 'one CIDR, or one of each family separated by a comma; checked in mode ClusterCIDR',
    errorPath: 'DetectLocalConfiguration.ClusterCIDRs',
    meaning: 'Addresses of pods. For mode ClusterCIDR. Empty: no traffic counts as local.',
  },
  nodePortAddresses: {
    type: 'strings',
    rules: 'CIDRs, and the words primary, localhost and all',
    errorPath: 'NodePortAddresses',
    meaning:
      'Addresses of the node on which node ports answer. `primary`: those that the Node ' +
      'object names first; `localhost`: 127.0.0.0/8 and ::1/128; `all`: 0.0.0.0/0 and ::/0. ' +
      'Loopback addresses that are named accept TCP from the node itself. ' +
      'Empty: all; in mode nftables, the primary ones.',
  },
  connectTime: {
    type: 'string-or-off',
    default: 'off',
    rules: 'off, host or all',
    errorPath: 'ConnectTime',
    origin: 'own',
    meaning:
      'Whose TCP connections to Services get their endpoint when they are made, by eBPF, instead ' +
      "of by rules: nobody's, those of processes in the node's network namespace, or those of " +
      'pods too. What the kernel cannot do so, the rules do (docs/connect-time.md).',
  },
  connectTimeExcludedPods: {
    type: 'string',
    rules: 'a label selector',
    errorPath: 'ConnectTimeExcludedPods',
    origin: 'own',
    meaning:
      'Label selector of pods whose connections are left to the rules, such as ' +
      '`security.istio.io/tlsMode` or `mesh=on,app!=web`: connectTime is for all others. It needs ' +
      'the right to list and watch pods. Empty: none.',
  },
  'externalIPs.cidrs': {
    type: 'strings',
    rules: 'CIDRs',
    errorPath: 'ExternalIPs.CIDRs',
    origin: 'own',
    meaning:
      'External IPs of Services (spec.externalIPs) are served only in these blocks; of others a ' +
      'log line and an event tell. Empty: all, as in kube-proxy: whoever may write Services then ' +
      'takes any address, also of nodes.',
  },
  'externalIPs.namespaces': {
    type: 'strings',
    rules: 'names of namespaces',
    errorPath: 'ExternalIPs.Namespaces',
    origin: 'own',
    meaning: 'External IPs are served only for Services in these namespaces. Empty: in all.',
  },
  'conntrack.maxPerCore': {
    type: 'int32',
    default: '32768',
    keepsZero: true,
    bounds: notNegative,
    errorPath: `${conntrack}.MaxPerCore`,
    meaning: 'Tracked connections per CPU. 0: leave the limit alone and ignore `min`.',
  },
  'conntrack.min': {
    type: 'int32',
    default: '131072',
    keepsZero: true,
    bounds: notNegative,
    errorPath: `${conntrack}.Min`,
    meaning: 'Tracked connections at least, however few CPUs there are.',
  },
  'conntrack.tcpEstablishedTimeout': {
    type: 'duration',
    default: '24h0m0s',
    keepsZero: true,
    bounds: notNegative,
    errorPath: `${conntrack}.TCPEstablishedTimeout`,
    meaning: 'Idle timeout of established TCP connections. 0: leave it alone.',
  },
  'conntrack.tcpCloseWaitTimeout': {
    type: 'duration',
    default: '1h0m0s',
    keepsZero: true,
    bounds: notNegative,
    errorPath: `${conntrack}.TCPCloseWaitTimeout`,
    meaning: 'Timeout of TCP connections in CLOSE_WAIT. 0: leave it alone.',
  },
  'conntrack.tcpBeLiberal': {
    type: 'bool',
    meaning: 'Do not call TCP packets outside the window invalid.',
  },
  'conntrack.udpTimeout': {
    type: 'duration',
    bounds: notNegative,
    errorPath: `${conntrack}.UDPTimeout`,
    meaning: 'Timeout of UDP exchanges without a reply. 0: leave it alone.',
  },
  'conntrack.udpStreamTimeout': {
    type: 'duration',
    bounds: notNegative,
    errorPath: `${conntrack}.UDPStreamTimeout`,
    meaning: 'Timeout of UDP exchanges with replies. 0: leave it alone.',
  },
} as const satisfies FieldTable;
