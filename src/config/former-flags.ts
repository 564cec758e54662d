/** Flags that kube-proxy once had, or has on Windows: unknown today, with what to do instead. */
export const formerFlags: Readonly<Record<string, string>> = {
  'udp-timeout': 'set udpIdleTimeout in a configuration file; it is for mode userspace only',
  'proxy-port-range':
    'portRange in a configuration file is checked, but no mode needs ports of its own',
  'cleanup-iptables': 'use --cleanup',
  'resource-container': 'let the supervisor put the process into its cgroup',
  'log-dir': 'logs go to stderr; redirect them',
  'log-file': 'logs go to stderr; redirect them',
  logtostderr: 'logs go to stderr anyway; drop the flag',
  alsologtostderr: 'logs go to stderr anyway; drop the flag',
  stderrthreshold: 'logs go to stderr anyway; drop the flag',
  'windows-service': 'it is for Windows nodes',
  'source-vip': 'it is for Windows nodes',
  'network-name': 'it is for Windows nodes',
  'enable-dsr': 'it is for Windows nodes',
  'root-hnsendpoint-name': 'it is for Windows nodes',
  'forward-healthcheck-vip': 'it is for Windows nodes',
};
