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
  'detectLocalMode --detect-local-mode': string("How to detect traffic of this node's pods.", {
    offers: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
    rules: 'ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix or empty (ClusterCIDR)',
    check: isDetectLocalMode,
  }),
  'detectLocal.bridgeInterface --pod-bridge-interface': string(
    'Bridge that the pods are on. For mode BridgeInterface.',
    {
      rules: 'not empty in mode BridgeInterface',
      check: isGivenIn('BridgeInterface'),
      errorPath: 'DetectLocalConfiguration.InterfaceName',
    },
  ),
  'detectLocal.interfaceNamePrefix --pod-interface-name-prefix': string(
    "How the names of the pods' interfaces begin. For mode InterfaceNamePrefix.",
    {
      rules: 'not empty in mode InterfaceNamePrefix',
      check: isGivenIn('InterfaceNamePrefix'),
      errorPath: 'DetectLocalConfiguration.InterfacePrefix',
    },
  ),
  'clusterCIDR --cluster-cidr': string(
    'Addresses of pods, for detectLocalMode ClusterCIDR (empty: no traffic is local) ' +
      'and for failureDetection, which probes pods only.',
    {
      config: 'clusterCIDR',
      // It is checked in mode ClusterCIDR only; a warning names what is left out in others.
      make: (text): readonly CIDR[] => text.split(',').flatMap((one) => parseCIDR(one) ?? []),
      rules: 'a CIDR, or one of each family with a comma; in mode ClusterCIDR',
      check: areClusterCIDRs,
      errorPath: 'DetectLocalConfiguration.ClusterCIDRs',
    },
  ),
  'nodePortAddresses --nodeport-addresses': strings(
    'Node addresses with node ports. `localhost`: loopback, for TCP of the node itself. ' +
      'Empty: `primary` (first of the Node object) with `mode: nftables`, else `all`.',
    {
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
    'externalIPs.cidrs --external-ip-cidrs': strings(
      'Serve external IPs only in these blocks, which include ports on which programs of ' +
        'the node listen. Empty: all addresses, but no such ports.',
      {
        make: toCIDRs,
        rules: 'CIDRs',
        check: areCIDRs,
        errorPath: 'ExternalIPs.CIDRs',
      },
    ),
    'externalIPs.namespaces --external-ip-namespaces': strings(
      'Serve external IPs only for these namespaces. Empty: for all.',
      { rules: 'names of namespaces', check: areNamespaces },
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

const limit = (what: Limit, meaning: string) => {
  const { nftables, iptables } = modeTable;
  const standard =
    defaultOf(what) ??
    `${nftables.frontendEndpoints}; in mode iptables ${iptables.frontendEndpoints}`;
  return int32(meaning, {
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
    'serviceLimits.frontends --service-frontends-max': limit(
      'frontends',
      'Frontends (address and port, or node port) of one Service in one family. Beyond ' +
        'it, the ClusterIP comes first, then node ports, then other addresses.',
    ),
    'serviceLimits.frontendEndpoints --service-frontend-endpoints-max': limit(
      'frontendEndpoints',
      'Endpoints of one frontend. Beyond it, those on this node are served, then the ' +
        'first by names of EndpointSlices.',
    ),
    'serviceLimits.endpoints --service-endpoints-max': limit(
      'endpoints',
      'Endpoints of one Service in one family, counted for each frontend. Beyond it, each ' +
        'frontend gets the same number, chosen in the same order.',
    ),
    'serviceLimits.sourceRanges --service-source-ranges-max': limit(
      'sourceRanges',
      'Source ranges of one Service in one family, counted for each frontend that they guard. ' +
        'Beyond it, the first ranges may connect.',
    ),
    'serviceLimits.affinityPorts --service-affinity-ports-max': limit(
      'affinityPorts',
      'Ports of one Service and family with session affinity, or balance round-robin (up ' +
        'to four addresses each). Beyond it, the first ports have it.',
    ),
    'serviceLimits.namespaceFactor --service-limits-namespace-factor': limit(
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

const connectionLimit = (what: string, max: number, meaning: string) =>
  int32(`${meaning} 0: no limit.`, {
    bounds: { min: 0, max },
    rules: needsRules,
    check: isInRules,
    errorPath: `ConnectionLimits.${what}`,
  });

/** What connections to all Services together may take. */
export const connectionLimitSettings = grouped(
  'limits',
  own({
    'connectionLimits.clientConnections --client-connections-max': connectionLimit(
      'clientConnections',
      openMost,
      'Open connections of one client address to Services (docs/connection-limits.md).',
    ),
    'connectionLimits.clientShare --client-conntrack-share': connectionLimit(
      'clientShare',
      percentMost,
      'Percentage of connection tracking that such connections of one client address may fill.',
    ),
    'connectionLimits.namespaceConnections --namespace-connections-max': connectionLimit(
      'namespaceConnections',
      openMost,
      'Open connections to the Services of one namespace.',
    ),
    'connectionLimits.namespaceShare --namespace-conntrack-share': connectionLimit(
      'namespaceShare',
      percentMost,
      'Percentage of connection tracking that these may fill.',
    ),
    'connectionLimits.exemptClients --connection-limits-exempt-clients': strings(
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

const conntrackLimit = <Name extends string>(name: Name, standard: string, meaning: string) =>
  int32(meaning, {
    config: `conntrack.${name}`,
    default: standard,
    keepsZero: true,
    bounds: notNegative,
  });
const conntrackTimeout = <Name extends string>(name: Name, standard: string, meaning: string) =>
  duration(`${meaning} 0: leave it alone.`, {
    config: `conntrack.${name}TimeoutMs`,
    ...(standard !== '0s' && { default: standard, keepsZero: true }),
    bounds: notNegative,
  });

/** What is set on the node. */
export const hostSettings = grouped('host', {
  'oomScoreAdj --oom-score-adj': int32('oom_score_adj of the process.', {
    config: 'oomScoreAdj',
    default: '-999',
    keepsZero: true,
    bounds: { min: -1000, max: 1000 },
    errorPath: 'KubeProxyLinuxConfiguration.OOMScoreAdj',
  }),
  'conntrack.maxPerCore --conntrack-max-per-core': conntrackLimit(
    'maxPerCore',
    '32768',
    'Tracked connections per CPU. 0: leave the limit alone and ignore `min`.',
  ),
  'conntrack.min --conntrack-min': conntrackLimit(
    'min',
    '131072',
    'Tracked connections at least, however few CPUs there are.',
  ),
  'conntrack.tcpEstablishedTimeout --conntrack-tcp-timeout-established': conntrackTimeout(
    'tcpEstablished',
    '24h0m0s',
    'Idle timeout of established TCP connections.',
  ),
  'conntrack.tcpCloseWaitTimeout --conntrack-tcp-timeout-close-wait': conntrackTimeout(
    'tcpCloseWait',
    '1h0m0s',
    'Timeout of TCP connections in CLOSE_WAIT.',
  ),
  'conntrack.tcpBeLiberal --conntrack-tcp-be-liberal': bool(
    'Do not call TCP packets outside the window invalid.',
    {
      config: 'conntrack.tcpBeLiberal',
    },
  ),
  'conntrack.udpTimeout --conntrack-udp-timeout': conntrackTimeout(
    'udp',
    '0s',
    'Timeout of UDP exchanges without a reply.',
  ),
  'conntrack.udpStreamTimeout --conntrack-udp-timeout-stream': conntrackTimeout(
    'udpStream',
    '0s',
    'Timeout of UDP exchanges with replies.',
  ),
});
