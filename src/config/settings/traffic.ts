import { modeTable } from '../../modes/mode-table.ts';
import { type Config, serviceLimitDefaults } from '../config.ts';
import {
  areCIDRs,
  areClusterCIDRs,
  areNamespaces,
  areNodePortAddresses,
  isDetectLocalMode,
  isGivenIn,
} from './checks.ts';
import { bool, duration, grouped, int32, notNegative, string, strings } from './spec.ts';

/** Which traffic is local, and which addresses are served. */
export const trafficSettings = grouped('traffic', {
  detectLocalMode: string("How to detect traffic of this node's pods.", {
    flag: 'detect-local-mode',
    offers: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
    rules: 'ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix or empty (ClusterCIDR)',
    check: isDetectLocalMode,
  }),
  'detectLocal.bridgeInterface': string('Bridge that the pods are on. For mode BridgeInterface.', {
    flag: 'pod-bridge-interface',
    rules: 'not empty in mode BridgeInterface',
    check: isGivenIn('BridgeInterface'),
    errorPath: 'DetectLocalConfiguration.InterfaceName',
  }),
  'detectLocal.interfaceNamePrefix': string(
    "How the names of the pods' interfaces begin. For mode InterfaceNamePrefix.",
    {
      flag: 'pod-interface-name-prefix',
      rules: 'not empty in mode InterfaceNamePrefix',
      check: isGivenIn('InterfaceNamePrefix'),
      errorPath: 'DetectLocalConfiguration.InterfacePrefix',
    },
  ),
  clusterCIDR: string(
    'Addresses of pods. For detectLocalMode ClusterCIDR, where empty means that no traffic counts ' +
      'as local; and for failureDetection, which probes pods only.',
    {
      flag: 'cluster-cidr',
      rules: 'one CIDR, or one of each family separated by a comma; checked in mode ClusterCIDR',
      check: areClusterCIDRs,
      errorPath: 'DetectLocalConfiguration.ClusterCIDRs',
    },
  ),
  nodePortAddresses: strings(
    'Addresses of the node on which node ports answer. `primary`: those that the Node ' +
      'object names first; `localhost`: 127.0.0.0/8 and ::1/128; `all`: 0.0.0.0/0 and ::/0. ' +
      'Loopback addresses that are named accept TCP from the node itself. ' +
      'Empty: the primary ones if `mode` is given as nftables, otherwise all.',
    {
      flag: 'nodeport-addresses',
      rules: 'CIDRs, and the words primary, localhost and all',
      check: areNodePortAddresses,
      forIpvs: {
        kept: 'Empty means all addresses.',
        nftables: 'Empty means the primary addresses of the node; set it to `[all]` for all.',
      },
    },
  ),
  'externalIPs.cidrs': strings(
    'External IPs of Services (spec.externalIPs) are served only in these blocks; a log line ' +
      'and an event report others. Empty: all, as in kube-proxy: whoever may write Services then ' +
      'takes any address, also of nodes, but no port on which a program of the node listens; a ' +
      'block that has the address gives these, too.',
    {
      flag: 'external-ip-cidrs',
      rules: 'CIDRs',
      check: areCIDRs,
      errorPath: 'ExternalIPs.CIDRs',
      origin: 'own',
      omitted: true,
    },
  ),
  'externalIPs.namespaces': strings(
    'External IPs are served only for Services in these namespaces. Empty: in all.',
    {
      flag: 'external-ip-namespaces',
      rules: 'names of namespaces',
      check: areNamespaces,
      origin: 'own',
      omitted: true,
    },
  ),
});

const limit = (flag: string, what: keyof Config['serviceLimits'], meaning: string) => {
  const { nftables, iptables } = modeTable;
  const standard =
    what === 'frontendEndpoints'
      ? `${nftables.frontendEndpoints}; in mode iptables ${iptables.frontendEndpoints}`
      : serviceLimitDefaults[what];
  return int32(meaning, {
    flag,
    bounds: notNegative,
    rules: `0 = the default, ${standard}`,
    errorPath: `ServiceLimits.${what}`,
    origin: 'own',
    omitted: true,
  });
};

/** How much one Service may take. */
export const limitSettings = grouped('limits', {
  'serviceLimits.frontends': limit(
    'service-frontends-max',
    'frontends',
    'The most frontends (an address and port, or a node port) of one Service in one ' +
      'family. Beyond it, the first ports are served at the ClusterIP, then at node ports, ' +
      'then at as many further addresses as fit.',
  ),
  'serviceLimits.frontendEndpoints': limit(
    'service-frontend-endpoints-max',
    'frontendEndpoints',
    'The most endpoints of one frontend. Beyond it, those on this node are ' +
      'served, then the first by the names of EndpointSlices.',
  ),
  'serviceLimits.endpoints': limit(
    'service-endpoints-max',
    'endpoints',
    'The most endpoints of one Service in one family, counted once for each frontend. ' +
      'Beyond it, each frontend gets the same number: those on this node, then the first ' +
      'by the names of EndpointSlices.',
  ),
  'serviceLimits.sourceRanges': limit(
    'service-source-ranges-max',
    'sourceRanges',
    'The most source ranges of one Service in one family, counted once for each ' +
      'load-balancer frontend. Beyond it, the first ranges are let in.',
  ),
  'serviceLimits.affinityPorts': limit(
    'service-affinity-ports-max',
    'affinityPorts',
    'The most ports of one Service in one family with session affinity, or with the balance ' +
      'round-robin, where each of up to four addresses of a port counts. Beyond it, the ' +
      'first ports remember their clients, or take turns.',
  ),
  'serviceLimits.namespaceFactor': limit(
    'service-limits-namespace-factor',
    'namespaceFactor',
    'The Services of one namespace may have this many times what one may have, of all ' +
      'but endpoints of one frontend. Beyond it, each gets a half of its limits at most, a ' +
      'quarter, and so on, down to a 64th.',
  ),
});

const conntrackLimit = (flag: string, standard: string, meaning: string) =>
  int32(meaning, { flag, default: standard, keepsZero: true, bounds: notNegative });
const conntrackTimeout = (flag: string, standard: string, meaning: string) =>
  duration(`${meaning} 0: leave it alone.`, {
    flag,
    ...(standard !== '0s' && { default: standard, keepsZero: true }),
    bounds: notNegative,
  });

/** What is set on the node. */
export const hostSettings = grouped('host', {
  oomScoreAdj: int32("The process's oom_score_adj: the lower, the later it is killed for memory.", {
    flag: 'oom-score-adj',
    default: '-999',
    keepsZero: true,
    bounds: { min: -1000, max: 1000 },
    errorPath: 'KubeProxyLinuxConfiguration.OOMScoreAdj',
  }),
  'conntrack.maxPerCore': conntrackLimit(
    'conntrack-max-per-core',
    '32768',
    'Tracked connections per CPU. 0: leave the limit alone and ignore `min`.',
  ),
  'conntrack.min': conntrackLimit(
    'conntrack-min',
    '131072',
    'Tracked connections at least, however few CPUs there are.',
  ),
  'conntrack.tcpEstablishedTimeout': conntrackTimeout(
    'conntrack-tcp-timeout-established',
    '24h0m0s',
    'Idle timeout of established TCP connections.',
  ),
  'conntrack.tcpCloseWaitTimeout': conntrackTimeout(
    'conntrack-tcp-timeout-close-wait',
    '1h0m0s',
    'Timeout of TCP connections in CLOSE_WAIT.',
  ),
  'conntrack.tcpBeLiberal': bool('Do not call TCP packets outside the window invalid.', {
    flag: 'conntrack-tcp-be-liberal',
  }),
  'conntrack.udpTimeout': conntrackTimeout(
    'conntrack-udp-timeout',
    '0s',
    'Timeout of UDP exchanges without a reply.',
  ),
  'conntrack.udpStreamTimeout': conntrackTimeout(
    'conntrack-udp-timeout-stream',
    '0s',
    'Timeout of UDP exchanges with replies.',
  ),
});
