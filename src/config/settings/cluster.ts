import { isHiddenVersion, isHostPort, isIP } from './checks.ts';
import { bool, duration, grouped, int32, notNegative, other, positive, string } from './spec.ts';

const replacedBy = (name: string): string =>
  `This flag is deprecated and will be removed in a future release. Please use ${name} instead.`;

/** The connection to the API server. */
export const sourceSettings = grouped('source', {
  'clientConnection.kubeconfig': string(
    'Path of the kubeconfig. Empty, with no --master: in-cluster credentials.',
    { flag: 'kubeconfig', offers: 'files', restart: 'always' },
  ),
  '--master': string('URL of the API server; overrides the one in the kubeconfig.', {
    withConfig: 'kept',
  }),
  '--manifests': string(
    'Read Services, EndpointSlices and Nodes from this directory, not from an API server.',
    { offers: 'directories', withConfig: 'kept', origin: 'own' },
  ),
  'clientConnection.acceptContentTypes': string(
    'Accept header of requests to the API server; protobuf and JSON. Empty: as contentType says.',
    { restart: 'always' },
  ),
  'clientConnection.contentType': string(
    'What is asked of the API server: protobuf, or else JSON where it gives none; or JSON alone.',
    {
      flag: 'kube-api-content-type',
      default: 'application/vnd.kubernetes.protobuf',
      restart: 'always',
    },
  ),
  dropManagedFields: bool(
    'Ask the API server to leave out metadata.managedFields (KEP-5958, ' +
      'alpha in Kubernetes 1.38). Older servers ignore it. While other clients do not ask for ' +
      'it, the server encodes each object twice.',
    { flag: 'drop-managed-fields', origin: 'own', omitted: true, restart: 'always' },
  ),
  'clientConnection.burst': int32('Requests that may exceed the rate in a burst.', {
    flag: 'kube-api-burst',
    default: '10',
    bounds: notNegative,
    restart: 'always',
  }),
  'clientConnection.qps': other('float32')('Requests a second to the API server.', {
    flag: 'kube-api-qps',
    default: '5',
    restart: 'always',
  }),
  configSyncPeriod: duration(
    'How often kube-proxy processes all objects again. Checked, without effect.',
    { flag: 'config-sync-period', default: '15m0s', bounds: positive },
  ),
  hostnameOverride: string(
    'Name of this Node. White space around it is removed, capitals become small letters. ' +
      "Empty: the operating system's host name.",
    {
      flag: 'hostname-override',
      rules: 'not only white space',
      withConfig: 'kept',
      restart: 'always',
    },
  ),
});

/** The proxy's own addresses and servers. */
export const serveSettings = grouped('serve', {
  bindAddress: other('ip')(
    "The node's own address, where that of the Node object is not to be used; it also sets the " +
      'primary IP family. Nothing listens on it. 0.0.0.0 and :: mean that it is not given.',
    {
      flag: 'bind-address',
      default: '0.0.0.0',
      rules: 'an IP address without brackets',
      check: isIP,
      restart: 'always',
    },
  ),
  healthzBindAddress: other('ip-port')(
    'Where /healthz and /livez are served. With an IPv6 `bindAddress` in the file the default ' +
      'is [::]:10256.',
    {
      flag: 'healthz-bind-address',
      flagMeaning: 'Where /healthz and /livez are served. Empty: nowhere.',
      default: '0.0.0.0:10256',
      rules: 'IP:port, port 1–65535; without a port, :10256 is added',
      check: isHostPort,
      restart: 'always',
    },
  ),
  '--healthz-port': int32('Port for --healthz-bind-address where that has none. 0: do not serve.', {
    default: '10256',
    deprecated: replacedBy('--healthz-bind-address'),
  }),
  metricsBindAddress: other('ip-port')(
    'Where /metrics, /proxyMode and /configz are served. With an IPv6 `bindAddress` in the ' +
      'file the default is [::1]:10249.',
    {
      flag: 'metrics-bind-address',
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
  readBindAddress: other('ip-port')(
    'Where HTTPS answers questions about this node (docs/api.md) for other machines: only for ' +
      'clients with a token that the API server knows, and for what its roles permit ' +
      '(docs/kubectl-plugin.md). Empty: nowhere.',
    {
      flag: 'read-bind-address',
      rules: 'IP:port, port 1–65535',
      check: isHostPort,
      withConfig: 'kept',
      origin: 'own',
      omitted: true,
      restart: 'always',
    },
  ),
  bindAddressHardFail: bool('End the process when one of these addresses cannot be listened on.', {
    flag: 'bind-address-hard-fail',
    restart: 'always',
  }),
  serviceMetrics: bool(
    'Count connections and refusals by Service, and expose them at /metrics. What each mode ' +
      'counts is in docs/operating.md.',
    { flag: 'service-metrics', origin: 'own', omitted: true },
  ),
  enableProfiling: bool('Serve profiles and the log level switch on the metrics address.', {
    flag: 'profiling',
    restart: 'always',
  }),
  showHiddenMetricsForVersion: string(
    'Show metrics again that were hidden in this version. Checked, without effect: none is hidden.',
    {
      flag: 'show-hidden-metrics-for-version',
      rules: 'empty or 1.35, the previous minor version',
      check: isHiddenVersion,
    },
  ),
});
