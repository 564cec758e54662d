import type { FieldTable } from './spec.ts';

/** Connection to the API server, the proxy's own identity and servers. */
export const generalFields = {
  featureGates: {
    type: 'bool-map',
    rules: 'known gates; a locked gate keeps its value',
    errorPath: 'featureGates',
    meaning: 'Switches for features, by name.',
  },
  'clientConnection.kubeconfig': {
    type: 'string',
    meaning: 'Path of the kubeconfig. Empty, with no --master: in-cluster credentials.',
  },
  'clientConnection.acceptContentTypes': {
    type: 'string',
    meaning:
      'Accept header of requests to the API server; protobuf and JSON. Empty: as contentType says.',
  },
  'clientConnection.contentType': {
    type: 'string',
    default: 'application/vnd.kubernetes.protobuf',
    meaning:
      'What is asked of the API server: protobuf, or else JSON where it gives none; or JSON alone.',
  },
  'clientConnection.qps': {
    type: 'float32',
    default: '5',
    meaning: 'Requests a second to the API server.',
  },
  'clientConnection.burst': {
    type: 'int32',
    default: '10',
    bounds: { kind: 'not-negative' },
    errorPath: 'ClientConnection.Burst',
    meaning: 'Requests that may exceed the rate at once.',
  },
  hostnameOverride: {
    type: 'string',
    rules: 'not only white space',
    meaning:
      'Name of this Node. White space around it is removed, capitals become small letters. ' +
      "Empty: the operating system's host name.",
  },
  bindAddress: {
    type: 'string',
    default: '0.0.0.0',
    rules: 'an IP address without brackets',
    errorPath: 'BindAddress',
    meaning:
      "The node's own address, where that of the Node object is not to be used; it also sets the " +
      'primary IP family. Nothing listens on it. 0.0.0.0 and :: mean that it is not given.',
  },
  healthzBindAddress: {
    type: 'string',
    default: '0.0.0.0:10256',
    rules: 'IP:port, port 1–65535; without a port, :10256 is added',
    errorPath: 'HealthzBindAddress',
    meaning:
      'Where /healthz and /livez are served. With an IPv6 `bindAddress` in the file the default ' +
      'is [::]:10256.',
  },
  metricsBindAddress: {
    type: 'string',
    default: '127.0.0.1:10249',
    rules: 'IP:port, port 1–65535; without a port, :10249 is added',
    errorPath: 'MetricsBindAddress',
    meaning:
      'Where /metrics, /proxyMode and /configz are served. With an IPv6 `bindAddress` in the ' +
      'file the default is [::1]:10249.',
  },
  bindAddressHardFail: {
    type: 'bool',
    meaning: 'End the process when one of these two addresses cannot be listened on.',
  },
  serviceMetrics: {
    type: 'bool',
    origin: 'own',
    meaning:
      'Count connections and refusals by Service, and expose them at /metrics. What each mode ' +
      'counts is in docs/operating.md.',
  },
  enableProfiling: {
    type: 'bool',
    meaning: 'Serve profiles and the log level switch on the metrics address.',
  },
  showHiddenMetricsForVersion: {
    type: 'string',
    rules: 'empty or 1.35, the previous minor version',
    errorPath: 'ShowHiddenMetricsForVersion',
    meaning: 'Show metrics again that were hidden in this version.',
  },
  configSyncPeriod: {
    type: 'duration',
    default: '15m0s',
    bounds: { kind: 'positive' },
    errorPath: 'ConfigSyncPeriod',
    meaning: 'How often kube-proxy processes all objects again. Checked, without effect.',
  },
  oomScoreAdj: {
    type: 'int32',
    default: '-999',
    keepsZero: true,
    bounds: { kind: 'range', min: -1000, max: 1000 },
    errorPath: 'KubeProxyLinuxConfiguration.OOMScoreAdj',
    meaning: "The process's oom_score_adj: the lower, the later it is killed for memory.",
  },
} as const satisfies FieldTable;
