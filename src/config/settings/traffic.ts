import { modeTable } from '../../modes/mode-table.ts';
import { type CIDR, parseCIDR } from '../../net/address.ts';
import { type ServiceLimits, standardLimits } from '../../state/budget.ts';
import {
  areCIDRs,
  areClusterCIDRs,
  areNamespaces,
  areNodePortAddresses,
  type Check,
  isDetectLocalMode,
  isGivenIn,
} from './checks.ts';
import { toCIDRs, toNodePortAddresses } from './makers.ts';
import { bool, duration, grouped, int32, notNegative, own, string, strings } from './spec.ts';

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
    'Addresses of pods, for detectLocalMode ClusterCIDR (empty: no traffic is local) ' +
      'and for failureDetection, which probes pods only.',
    {
      flag: 'cluster-cidr',
      config: 'clusterCIDR',
      // It is checked in mode ClusterCIDR only; a warning names what is left out in others.
      make: (text): readonly CIDR[] => text.split(',').flatMap((one) => parseCIDR(one) ?? []),
      rules: 'a CIDR, or one of each family with a comma; in mode ClusterCIDR',
      check: areClusterCIDRs,
      errorPath: 'DetectLocalConfiguration.ClusterCIDRs',
    },
  ),
  nodePortAddresses: strings(
    'Node addresses with node ports. `localhost`: loopback, for TCP of the node itself. ' +
      'Empty: `primary` (first of the Node object) with `mode: nftables`, else `all`.',
    {
      flag: 'nodeport-addresses',
      config: 'nodePortAddresses',
      make: toNodePortAddresses,
      rules: 'CIDRs, primary, localhost, all',
      check: areNodePortAddresses,
      forIpvs: {
        kept: 'Empty means all addresses.',
        nftables: 'Empty means the primary addresses of the node; set it to `[all]` for all.',
      },
    },
  ),
  ...own({
    'externalIPs.cidrs': strings(
      'Serve external IPs only in these blocks, which include ports on which programs of ' +
        'the node listen. Empty: all addresses, but no such ports.',
      {
        flag: 'external-ip-cidrs',
        make: toCIDRs,
        rules: 'CIDRs',
        check: areCIDRs,
        errorPath: 'ExternalIPs.CIDRs',
      },
    ),
    'externalIPs.namespaces': strings(
      'Serve external IPs only for these namespaces. Empty: for all.',
      { flag: 'external-ip-namespaces', rules: 'names of namespaces', check: areNamespaces },
    ),
  }),
});

/**
 * The limits that 0 means. The first three allow as many ports as an object has room for,
 * which is 20,000: what a tenant can ask for otherwise is thousands of times more. Each port with
 * session affinity makes the commits of all others slower (docs/decisions/0015).
 */
export const serviceLimitDefaults = {
  ...standardLimits,
  sourceRanges: 50_000,
  affinityPorts: 1000,
  namespaceFactor: 10,
} as const;

type Limit = keyof ServiceLimits | 'namespaceFactor';

/** Of 0; undefined: that depends on the mode that runs. */
function defaultOf(what: Limit): number | undefined {
  return what === 'frontendEndpoints' ? undefined : serviceLimitDefaults[what];
}

const limit = <What extends Limit>(flag: string, what: What, meaning: string) => {
  const { nftables, iptables } = modeTable;
  const standard =
    defaultOf(what) ??
    `${nftables.frontendEndpoints}; in mode iptables ${iptables.frontendEndpoints}`;
  return int32(meaning, {
    flag,
    make: (value) => value || (defaultOf(what) ?? 0),
    bounds: notNegative,
    rules: `0 = the default, ${standard}`,
    errorPath: `ServiceLimits.${what}`,
  });
};

/** The most open connections that rules can count without a long walk, and a part of all. */
const [openMost, percentMost] = [1_000_000, 100];

/** How much one Service may take. */
export const limitSettings = grouped(
  'limits',
  own({
    'serviceLimits.frontends': limit(
      'service-frontends-max',
      'frontends',
      'Frontends (address and port, or node port) of one Service in one family. Beyond ' +
        'it, the ClusterIP comes first, then node ports, then other addresses.',
    ),
    'serviceLimits.frontendEndpoints': limit(
      'service-frontend-endpoints-max',
      'frontendEndpoints',
      'Endpoints of one frontend. Beyond it, those on this node are served, then the ' +
        'first by names of EndpointSlices.',
    ),
    'serviceLimits.endpoints': limit(
      'service-endpoints-max',
      'endpoints',
      'Endpoints of one Service in one family, counted for each frontend. Beyond it, each ' +
        'frontend gets the same number, chosen in the same order.',
    ),
    'serviceLimits.sourceRanges': limit(
      'service-source-ranges-max',
      'sourceRanges',
      'Source ranges of one Service in one family, counted for each frontend that they guard. ' +
        'Beyond it, the first ranges may connect.',
    ),
    'serviceLimits.affinityPorts': limit(
      'service-affinity-ports-max',
      'affinityPorts',
      'Ports of one Service and family with session affinity, or balance round-robin (up ' +
        'to four addresses each). Beyond it, the first ports have it.',
    ),
    'serviceLimits.namespaceFactor': limit(
      'service-limits-namespace-factor',
      'namespaceFactor',
      'A namespace may have this many times these limits, but for frontendEndpoints. ' +
        'Beyond it, each Service gets half, a quarter, down to a 64th.',
    ),
  }),
);

const needsRules = 'needs connectTime off and no serviceProxyName';

const isInRules: Check<number> = (most, { connectTime, serviceProxyName }) =>
  most === 0 || (connectTime === 'off' && serviceProxyName === '')
    ? []
    : [{ shown: String(most), detail: needsRules }];

const connectionLimit = <What extends string>(
  flag: string,
  what: What,
  max: number,
  meaning: string,
) =>
  int32(`${meaning} 0: no limit.`, {
    flag,
    bounds: { min: 0, max },
    rules: needsRules,
    check: isInRules,
    errorPath: `ConnectionLimits.${what}`,
  });

/** What connections to all Services together may take. */
export const connectionLimitSettings = grouped(
  'limits',
  own({
    'connectionLimits.clientConnections': connectionLimit(
      'client-connections-max',
      'clientConnections',
      openMost,
      'Open connections of one client address to Services (docs/connection-limits.md).',
    ),
    'connectionLimits.clientShare': connectionLimit(
      'client-conntrack-share',
      'clientShare',
      percentMost,
      'Percentage of connection tracking that such connections of one client address may fill.',
    ),
    'connectionLimits.namespaceConnections': connectionLimit(
      'namespace-connections-max',
      'namespaceConnections',
      openMost,
      'Open connections to the Services of one namespace.',
    ),
    'connectionLimits.namespaceShare': connectionLimit(
      'namespace-conntrack-share',
      'namespaceShare',
      percentMost,
      'Percentage of connection tracking that these may fill.',
    ),
    'connectionLimits.exemptClients': strings(
      'Client addresses without such a limit; those of this node never have one.',
      {
        make: toCIDRs,
        rules: 'CIDRs',
        check: areCIDRs,
        errorPath: 'ConnectionLimits.ExemptClients',
      },
    ),
  }),
);

const conntrackLimit = <Name extends string>(
  flag: string,
  name: Name,
  standard: string,
  meaning: string,
) =>
  int32(meaning, {
    flag,
    config: `conntrack.${name}`,
    default: standard,
    keepsZero: true,
    bounds: notNegative,
  });
const conntrackTimeout = <Name extends string>(
  flag: string,
  name: Name,
  standard: string,
  meaning: string,
) =>
  duration(`${meaning} 0: leave it alone.`, {
    flag,
    config: `conntrack.${name}TimeoutMs`,
    ...(standard !== '0s' && { default: standard, keepsZero: true }),
    bounds: notNegative,
  });

/** What is set on the node. */
export const hostSettings = grouped('host', {
  oomScoreAdj: int32('oom_score_adj of the process.', {
    flag: 'oom-score-adj',
    config: 'oomScoreAdj',
    default: '-999',
    keepsZero: true,
    bounds: { min: -1000, max: 1000 },
    errorPath: 'KubeProxyLinuxConfiguration.OOMScoreAdj',
  }),
  'conntrack.maxPerCore': conntrackLimit(
    'conntrack-max-per-core',
    'maxPerCore',
    '32768',
    'Tracked connections per CPU. 0: leave the limit alone and ignore `min`.',
  ),
  'conntrack.min': conntrackLimit(
    'conntrack-min',
    'min',
    '131072',
    'Tracked connections at least, however few CPUs there are.',
  ),
  'conntrack.tcpEstablishedTimeout': conntrackTimeout(
    'conntrack-tcp-timeout-established',
    'tcpEstablished',
    '24h0m0s',
    'Idle timeout of established TCP connections.',
  ),
  'conntrack.tcpCloseWaitTimeout': conntrackTimeout(
    'conntrack-tcp-timeout-close-wait',
    'tcpCloseWait',
    '1h0m0s',
    'Timeout of TCP connections in CLOSE_WAIT.',
  ),
  'conntrack.tcpBeLiberal': bool('Do not call TCP packets outside the window invalid.', {
    flag: 'conntrack-tcp-be-liberal',
    config: 'conntrack.tcpBeLiberal',
  }),
  'conntrack.udpTimeout': conntrackTimeout(
    'conntrack-udp-timeout',
    'udp',
    '0s',
    'Timeout of UDP exchanges without a reply.',
  ),
  'conntrack.udpStreamTimeout': conntrackTimeout(
    'conntrack-udp-timeout-stream',
    'udpStream',
    '0s',
    'Timeout of UDP exchanges with replies.',
  ),
});
