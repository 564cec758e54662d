/** Every flag of kube-proxy 1.36 on Linux, and Fairlead's own (behaviour document 1.2). */
import { modeNames } from './config.ts';
import type { FlagSpec, FlagTable, FlagValueByType } from './flag-spec.ts';

const replacedBy = (name: string): string =>
  `This flag is deprecated and will be removed in a future release. Please use ${name} instead.`;

const runFlags = {
  config: {
    type: 'string',
    group: 'run',
    offers: 'files',
    meaning:
      'Path of a KubeProxyConfiguration file. With it, only these flags still count: ' +
      '--hostname-override, --master, --manifests, --cleanup, --dry-run, ' +
      '--ignore-other-instance, --init-only, ' +
      '--write-config-to and those of logging.',
  },
  'write-config-to': {
    type: 'string',
    group: 'run',
    offers: 'files',
    withConfig: 'kept',
    meaning: 'Write the effective configuration to this file and exit.',
  },
  cleanup: {
    type: 'bool',
    group: 'run',
    withConfig: 'kept',
    meaning: 'Remove the rules of every mode and exit.',
  },
  'dry-run': {
    type: 'bool',
    group: 'run',
    withConfig: 'kept',
    own: true,
    meaning:
      'Say what a start would write, set and take over, or, with --cleanup, what would be ' +
      'removed; write nothing, and exit.',
  },
  'ignore-other-instance': {
    type: 'bool',
    group: 'run',
    withConfig: 'kept',
    own: true,
    meaning:
      'Start, or clean up, although another Fairlead runs in this network namespace. ' +
      'Two at once undo what the other does.',
  },
  'init-only': {
    type: 'bool',
    group: 'run',
    withConfig: 'kept',
    meaning:
      'Do the set-up that needs full privileges and exit; afterwards CAP_NET_ADMIN is enough.',
  },
  version: {
    type: 'version',
    group: 'run',
    default: 'false',
    bare: 'true',
    withConfig: 'kept',
    meaning:
      'Print the version and exit; --version=raw prints all of it. --version=vX.Y.Z reports that ' +
      'version instead and goes on.',
  },
  help: {
    type: 'bool',
    group: 'run',
    shorthand: 'h',
    withConfig: 'kept',
    meaning: 'Print this text and exit.',
  },
} as const satisfies FlagTable;

const sourceFlags = {
  kubeconfig: {
    type: 'string',
    group: 'source',
    field: 'clientConnection.kubeconfig',
    offers: 'files',
  },
  master: {
    type: 'string',
    group: 'source',
    withConfig: 'kept',
    meaning: 'URL of the API server; overrides the one in the kubeconfig.',
  },
  manifests: {
    type: 'string',
    group: 'source',
    offers: 'directories',
    withConfig: 'kept',
    own: true,
    meaning: 'Read Services, EndpointSlices and Nodes from this directory, not from an API server.',
  },
  'kube-api-content-type': {
    type: 'string',
    group: 'source',
    field: 'clientConnection.contentType',
  },
  'kube-api-burst': { type: 'int32', group: 'source', field: 'clientConnection.burst' },
  'kube-api-qps': { type: 'float32', group: 'source', field: 'clientConnection.qps' },
  'config-sync-period': { type: 'duration', group: 'source', field: 'configSyncPeriod' },
  'hostname-override': {
    type: 'string',
    group: 'source',
    field: 'hostnameOverride',
    withConfig: 'kept',
  },
} as const satisfies FlagTable;

const serveFlags = {
  'bind-address': { type: 'ip', group: 'serve', field: 'bindAddress' },
  'healthz-bind-address': {
    type: 'ip-port',
    group: 'serve',
    field: 'healthzBindAddress',
    meaning: 'Where /healthz and /livez are served. Empty: nowhere.',
  },
  'healthz-port': {
    type: 'int32',
    group: 'serve',
    default: '10256',
    deprecated: replacedBy('--healthz-bind-address'),
    meaning: 'Port for --healthz-bind-address where that has none. 0: do not serve.',
  },
  'metrics-bind-address': {
    type: 'ip-port',
    group: 'serve',
    field: 'metricsBindAddress',
    meaning: 'Where /metrics, /proxyMode and /configz are served. Empty: nowhere.',
  },
  'metrics-port': {
    type: 'int32',
    group: 'serve',
    default: '10249',
    deprecated: replacedBy('--metrics-bind-address'),
    meaning: 'Port for --metrics-bind-address where that has none. 0: do not serve.',
  },
  'bind-address-hard-fail': { type: 'bool', group: 'serve', field: 'bindAddressHardFail' },
  'service-metrics': { type: 'bool', group: 'serve', field: 'serviceMetrics', own: true },
  profiling: { type: 'bool', group: 'serve', field: 'enableProfiling' },
  'show-hidden-metrics-for-version': {
    type: 'string',
    group: 'serve',
    field: 'showHiddenMetricsForVersion',
  },
} as const satisfies FlagTable;

const modeFlags = {
  'proxy-mode': { type: 'string', group: 'mode', field: 'mode', offers: modeNames },
  'masquerade-all': {
    type: 'bool',
    group: 'mode',
    meaning: 'Masquerade everything that is sent to a ClusterIP, in every mode.',
  },
  'iptables-masquerade-bit': {
    type: 'int32',
    group: 'mode',
    field: 'iptables.masqueradeBit',
    meaning:
      'Bit of the packet mark that asks for masquerading, in iptables and ipvs mode; ' +
      'for mode nftables only a file can set it.',
  },
  'iptables-localhost-nodeports': {
    type: 'bool',
    group: 'mode',
    field: 'iptables.localhostNodePorts',
  },
  'iptables-sync-period': {
    type: 'duration',
    group: 'mode',
    default: '30s',
    meaning:
      'Longest wait before a Service that the kernel has refused is tried again, in every mode but ' +
      'ipvs. In mode userspace it is also the longest time between two full syncs. Above 0.',
  },
  'iptables-min-sync-period': {
    type: 'duration',
    group: 'mode',
    default: '1s',
    meaning: 'Least time between two syncs, in every mode but ipvs. 0 and 1s: none.',
  },
  'iptables-max-sync-period': {
    type: 'duration',
    group: 'mode',
    own: true,
    meaning:
      'Longest time between two full syncs, in every mode but ipvs. ' +
      '0: one hour, or the least time between two syncs where that is longer.',
  },
  'connect-time': { type: 'string', group: 'mode', field: 'connectTime', own: true },
  'connect-time-excluded-pods': {
    type: 'string',
    group: 'mode',
    field: 'connectTimeExcludedPods',
    own: true,
  },
  'own-tables': {
    type: 'bool',
    group: 'mode',
    default: 'true',
    withConfig: 'kept',
    own: true,
    meaning:
      'Let nobody else change or flush the tables of modes nftables and ipvs while this process ' +
      'runs (Linux 6.9 and newer). Otherwise, changes are repaired.',
  },
} as const satisfies FlagTable;

const ipvsFlags = {
  'ipvs-sync-period': {
    type: 'duration',
    group: 'ipvs',
    default: '30s',
    meaning: 'Longest time between two full syncs in mode ipvs. Above 0.',
  },
  'ipvs-min-sync-period': {
    type: 'duration',
    group: 'ipvs',
    default: '1s',
    meaning: 'Least time between two syncs in mode ipvs. 0 and 1s: none.',
  },
  'ipvs-scheduler': { type: 'string', group: 'ipvs', field: 'ipvs.scheduler' },
  'ipvs-exclude-cidrs': { type: 'strings', group: 'ipvs', field: 'ipvs.excludeCIDRs' },
  'ipvs-strict-arp': { type: 'bool', group: 'ipvs', field: 'ipvs.strictARP' },
  'ipvs-tcp-timeout': { type: 'duration', group: 'ipvs', field: 'ipvs.tcpTimeout' },
  'ipvs-tcpfin-timeout': { type: 'duration', group: 'ipvs', field: 'ipvs.tcpFinTimeout' },
  'ipvs-udp-timeout': { type: 'duration', group: 'ipvs', field: 'ipvs.udpTimeout' },
  'ipvs-counters': {
    type: 'bool',
    group: 'ipvs',
    withConfig: 'kept',
    own: true,
    meaning: 'Metrics of what each virtual service and each real server has carried.',
  },
} as const satisfies FlagTable;

const trafficFlags = {
  'detect-local-mode': {
    type: 'string',
    group: 'traffic',
    field: 'detectLocalMode',
    offers: ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'],
  },
  'pod-bridge-interface': {
    type: 'string',
    group: 'traffic',
    field: 'detectLocal.bridgeInterface',
  },
  'pod-interface-name-prefix': {
    type: 'string',
    group: 'traffic',
    field: 'detectLocal.interfaceNamePrefix',
  },
  'cluster-cidr': { type: 'string', group: 'traffic', field: 'clusterCIDR' },
  'nodeport-addresses': { type: 'strings', group: 'traffic', field: 'nodePortAddresses' },
  'external-ip-cidrs': {
    type: 'strings',
    group: 'traffic',
    field: 'externalIPs.cidrs',
    own: true,
  },
  'external-ip-namespaces': {
    type: 'strings',
    group: 'traffic',
    field: 'externalIPs.namespaces',
    own: true,
  },
} as const satisfies FlagTable;

const serviceLimit = <Field extends string>(field: Field) =>
  ({ type: 'int32', group: 'limits', field, own: true }) as const;

const limitFlags = {
  'service-frontends-max': serviceLimit('serviceLimits.frontends'),
  'service-frontend-endpoints-max': serviceLimit('serviceLimits.frontendEndpoints'),
  'service-endpoints-max': serviceLimit('serviceLimits.endpoints'),
  'service-source-ranges-max': serviceLimit('serviceLimits.sourceRanges'),
  'service-affinity-ports-max': serviceLimit('serviceLimits.affinityPorts'),
} as const satisfies FlagTable;

const hostFlags = {
  'oom-score-adj': { type: 'int32', group: 'host', field: 'oomScoreAdj' },
  'conntrack-max-per-core': { type: 'int32', group: 'host', field: 'conntrack.maxPerCore' },
  'conntrack-min': { type: 'int32', group: 'host', field: 'conntrack.min' },
  'conntrack-tcp-timeout-established': {
    type: 'duration',
    group: 'host',
    field: 'conntrack.tcpEstablishedTimeout',
  },
  'conntrack-tcp-timeout-close-wait': {
    type: 'duration',
    group: 'host',
    field: 'conntrack.tcpCloseWaitTimeout',
  },
  'conntrack-tcp-be-liberal': { type: 'bool', group: 'host', field: 'conntrack.tcpBeLiberal' },
  'conntrack-udp-timeout': { type: 'duration', group: 'host', field: 'conntrack.udpTimeout' },
  'conntrack-udp-timeout-stream': {
    type: 'duration',
    group: 'host',
    field: 'conntrack.udpStreamTimeout',
  },
} as const satisfies FlagTable;

const loggingFlags = {
  'logging-format': {
    type: 'string',
    group: 'logging',
    offers: ['text', 'json'],
    field: 'logging.format',
    withConfig: 'kept',
  },
  'log-flush-frequency': {
    type: 'duration',
    group: 'logging',
    field: 'logging.flushFrequency',
    withConfig: 'kept',
  },
  v: {
    type: 'level',
    group: 'logging',
    field: 'logging.verbosity',
    shorthand: 'v',
    withConfig: 'kept',
  },
  vmodule: {
    type: 'vmodule',
    group: 'logging',
    field: 'logging.vmodule',
    withConfig: 'kept',
  },
  'log-text-split-stream': {
    type: 'bool',
    group: 'logging',
    field: 'logging.options.text.splitStream',
    withConfig: 'kept',
  },
  'log-text-info-buffer-size': {
    type: 'quantity',
    group: 'logging',
    field: 'logging.options.text.infoBufferSize',
    withConfig: 'kept',
  },
  'log-json-split-stream': {
    type: 'bool',
    group: 'logging',
    field: 'logging.options.json.splitStream',
    withConfig: 'kept',
  },
  'log-json-info-buffer-size': {
    type: 'quantity',
    group: 'logging',
    field: 'logging.options.json.infoBufferSize',
    withConfig: 'kept',
  },
} as const satisfies FlagTable;

const otherFlags = {
  'feature-gates': { type: 'bool-map', group: 'other', field: 'featureGates' },
  'boot-id-file': {
    type: 'string',
    group: 'other',
    default: '/proc/sys/kernel/random/boot_id',
    withConfig: 'kept',
    meaning: 'Accepted, without effect.',
  },
  'machine-id-file': {
    type: 'string',
    group: 'other',
    default: '/etc/machine-id,/var/lib/dbus/machine-id',
    withConfig: 'kept',
    meaning: 'Accepted, without effect.',
  },
} as const satisfies FlagTable;

const table = {
  ...runFlags,
  ...sourceFlags,
  ...serveFlags,
  ...modeFlags,
  ...ipvsFlags,
  ...trafficFlags,
  ...limitFlags,
  ...hostFlags,
  ...loggingFlags,
  ...otherFlags,
} as const;

export type FlagName = keyof typeof table;
export const flagNames = Object.keys(table) as readonly FlagName[];
export const flagTable: Readonly<Record<FlagName, FlagSpec>> = table;

/** The value that a flag holds. */
export type FlagValue<Name extends FlagName> = FlagValueByType[(typeof table)[Name]['type']];
