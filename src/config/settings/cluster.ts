import {
  type Check,
  isHiddenVersion,
  isHostPort,
  isIP,
  isOneOf,
  isServiceProxyName,
} from './checks.ts';
import { toAddress, toHostPort } from './makers.ts';
import {
  bool,
  duration,
  grouped,
  int32,
  notNegative,
  other,
  own,
  positive,
  string,
} from './spec.ts';

const replacedBy = (name: string): string =>
  `This flag is deprecated and will be removed in a future release. Please use ${name} instead.`;

const isFlowLog: Check<string> = (text, all) =>
  text === 'off' || all.serviceBytes === true
    ? isOneOf(['off', 'failed', 'all'])(text, all)
    : [{ shown: JSON.stringify(text), detail: 'needs serviceBytes' }];

/** The connection to the API server. */
export const sourceSettings = grouped('source', {
  'clientConnection.kubeconfig --kubeconfig': string(
    'Path of the kubeconfig. Empty, with no --master: in-cluster credentials.',
    { offers: 'files', restart: 'always' },
  ),
  '--master': string('URL of the API server; overrides the one in the kubeconfig.', {
    withConfig: 'kept',
  }),
  '--manifests': string(
    'Read Services, EndpointSlices and Nodes from this directory, not from an API server.',
    { offers: 'directories', withConfig: 'kept', origin: 'own' },
  ),
  'clientConnection.acceptContentTypes': string(
    'Accept header of requests, protobuf and JSON. Empty: as contentType says.',
    { restart: 'always' },
  ),
  'clientConnection.contentType --kube-api-content-type': string(
    'Requested of the API server: protobuf, where it has that, or JSON alone.',
    {
      default: 'application/vnd.kubernetes.protobuf',
      restart: 'always',
    },
  ),
  'clientConnection.burst --kube-api-burst': int32(
    'Requests that may exceed the rate in a burst.',
    {
      default: '10',
      bounds: notNegative,
      restart: 'always',
    },
  ),
  'clientConnection.qps --kube-api-qps': other('float32')('Requests a second to the API server.', {
    default: '5',
    restart: 'always',
  }),
  'configSyncPeriod --config-sync-period': duration('Checked, without effect.', {
    default: '15m0s',
    bounds: positive,
  }),
  'hostnameOverride --hostname-override': string(
    'Name of this Node, in small letters, without white space around it. Empty: the ' +
      'host name.',
    {
      config: 'hostnameOverride',
      make: (name) => name.trim().toLowerCase(),
      rules: 'not only white space',
      withConfig: 'kept',
      restart: 'always',
    },
  ),
  ...own({
    'serviceProxyName --service-proxy-name': string(
      'Serve the Services whose label service.kubernetes.io/service-proxy-name is this, and no ' +
        'others: a second proxy of the node, with separate tables (docs/neighbours.md).',
      {
        rules:
          'a label value; needs mode nftables, without connectTime, fastPath and failureDetection',
        check: isServiceProxyName,
        restart: 'always',
      },
    ),
  }),
});

/** The proxy's own addresses and servers. */
export const serveSettings = grouped('serve', {
  'bindAddress --bind-address': other('ip')(
    "The node's address instead of the Node object's; also sets the primary IP family. " +
      'Nothing listens on it. 0.0.0.0 and :: mean: not given.',
    {
      config: 'bindAddress',
      make: toAddress,
      default: '0.0.0.0',
      rules: 'an IP address without brackets',
      check: isIP,
      restart: 'always',
    },
  ),
  'healthzBindAddress --healthz-bind-address': other('ip-port')(
    'Where /healthz and /livez are served. Default with an IPv6 `bindAddress`: [::]:10256.',
    {
      config: 'healthzBindAddress',
      make: toHostPort,
      flagMeaning: 'Where /healthz and /livez are served. Empty: nowhere.',
      default: '0.0.0.0:10256',
      rules: 'IP:port, port 1–65535; without a port, :10256 is added',
      check: isHostPort,
      restart: 'always',
    },
  ),
  ...own({
    'healthzNodeShutdown --healthz-node-shutdown': bool(
      'Once the kubelet says that the node shuts down, /healthz fails and its new connections ' +
        'go to endpoints of other nodes, before its pods end.',
    ),
    'healthzNetwork --healthz-network': bool(
      '/healthz fails while no endpoint of other nodes that has answered this node does so.',
      { restart: 'always' },
    ),
  }),
  '--healthz-port': int32('Port for --healthz-bind-address where that has none. 0: do not serve.', {
    default: '10256',
    deprecated: replacedBy('--healthz-bind-address'),
  }),
  'metricsBindAddress --metrics-bind-address': other('ip-port')(
    'Where /metrics, /proxyMode and /configz are served. Default with an IPv6 ' +
      '`bindAddress`: [::1]:10249.',
    {
      config: 'metricsBindAddress',
      make: toHostPort,
      flagMeaning: 'Where /metrics, /proxyMode and /configz are served. Empty: nowhere.',
      default: '127.0.0.1:10249',
      rules: 'IP:port, port 1–65535; without a port, :10249 is added',
      check: isHostPort,
      restart: 'always',
    },
  ),
  '--metrics-port': int32('Port for --metrics-bind-address where that has none. 0: do not serve.', {
    default: '10249',
    deprecated: replacedBy('--metrics-bind-address'),
  }),
  ...own({
    'readBindAddress --read-bind-address': other('ip-port')(
      'Where HTTPS answers questions of other machines (docs/api.md), as far as roles of ' +
        "the client's token permit (docs/kubectl-plugin.md). Empty: nowhere.",
      {
        make: toHostPort,
        rules: 'IP:port, port 1–65535',
        check: isHostPort,
        withConfig: 'kept',
        restart: 'always',
      },
    ),
  }),
  'bindAddressHardFail --bind-address-hard-fail': bool(
    'End the process when one of these addresses cannot be listened on.',
    {
      config: 'bindAddressHardFail',
      restart: 'always',
    },
  ),
  ...own({
    'serviceMetrics --service-metrics': bool(
      'Count connections and refusals by Service at /metrics (docs/operating.md).',
    ),
  }),
  'serviceBytes --service-bytes': bool(
    'Count bytes by Service and zone at /metrics (docs/operating.md).',
    {
      ...{ config: 'conntrack.countsBytes', origin: 'own', omitted: true },
    },
  ),
  ...own({
    'flowLog --flow-log': other('string-or-off')(
      'Connections that get a log line when they end: none, unanswered and refused ones, or all ' +
        '(docs/operating.md).',
      {
        default: 'off',
        rules: 'off, failed or all; needs serviceBytes',
        check: isFlowLog,
      },
    ),
  }),
  'enableProfiling --profiling': bool(
    'Serve profiles and the log level switch on the metrics address.',
    {
      config: 'profiling',
      restart: 'always',
    },
  ),
  'showHiddenMetricsForVersion --show-hidden-metrics-for-version': string(
    'Checked, without effect: no metric is hidden.',
    {
      rules: 'empty or 1.35, the previous minor version',
      check: isHiddenVersion,
    },
  ),
});
