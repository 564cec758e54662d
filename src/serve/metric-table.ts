/**
 * The metrics for Prometheus: one table of what they are, from which they are made and documented.
 * kube-proxy's metrics have its names, labels, prefixes of help texts and buckets (behaviour
 * document 10.3), so that dashboards and alerts still work. Ours begin with `fairlead_`.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type Type = 'counter' | 'gauge' | 'histogram';

interface Row<T extends Type = Type, L extends string = string> {
  readonly type: T;
  readonly help: string;
  readonly labels: readonly L[];
  readonly buckets?: readonly number[];
}

function counter<L extends string = never>(help: string, ...labels: L[]): Row<'counter', L> {
  return { type: 'counter', help, labels };
}

function gauge<L extends string = never>(help: string, ...labels: L[]): Row<'gauge', L> {
  return { type: 'gauge', help, labels };
}

function histogram<L extends string>(
  help: string,
  buckets: readonly number[],
  ...labels: L[]
): Row<'histogram', L> {
  return { type: 'histogram', help, labels, buckets };
}

/** kube-proxy's buckets for durations in seconds: 0.001 × 2^k for k = 0 … 14. */
const exponential = Array.from({ length: 15 }, (_, k) => 0.001 * 2 ** k);

/** The 0 comes from the way upstream merges its lists of buckets, and dashboards use it. */
const programming = [
  0,
  0.25,
  0.5,
  ...steps(1, 59, 1),
  ...steps(60, 115, 5),
  ...steps(120, 300, 30),
];

const requests = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const bodySizes = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216];
/** From ten minutes to four years. */
const rotations = [
  ...[600, 1800, 3600, 14_400, 86_400, 604_800, 2_592_000, 7_776_000, 15_552_000],
  ...[31_104_000, 124_416_000],
];

function steps(from: number, to: number, by: number): number[] {
  return Array.from({ length: (to - from) / by + 1 }, (_, i) => from + i * by);
}

const virtualService = ['protocol', 'virtual_service', 'real_server'] as const;

function ofIPVS(what: string): Row<'counter', (typeof virtualService)[number]> {
  const help = `${what} of a virtual service or real server; see --ipvs-counters`;
  return counter(help, ...virtualService);
}

/** Virtual services and real servers with their own series: each has up to eight. */
export const ipvsServersMax = 5000;

/** Service ports with their own series: Prometheus keeps each for hours, from each node. */
export const servicePortsMax = 10_000;

/** Service ports with series of outcomes, and of bytes: to print a series takes 10 µs. */
export const outcomePortsMax = 1000;

const servicePort = ['ip_family', 'namespace', 'service', 'port', 'protocol'] as const;

export const metricTable = {
  fairlead_affinity_fill_ratio: gauge(
    'How full the session affinity of a Service port is, from a half. At 1, new clients ' +
      'get any endpoint each time; mode nftables',
    'ip_family',
    'service_port',
    'pool',
  ),
  fairlead_audit_duration_seconds: histogram('Duration of audits', exponential, 'ip_family'),
  fairlead_audit_last_timestamp_seconds: gauge('Time of the last audit', 'ip_family'),
  fairlead_batch_bytes: histogram(
    'Size of the batches that the kernel took',
    Array.from({ length: 9 }, (_, k) => 64 * 8 ** k),
    'ip_family',
  ),
  fairlead_build_info: gauge('Version of this program', 'version', 'node_version'),
  fairlead_cluster_events_dropped_total: counter(
    'Events that were not sent to the API server',
    'reason',
  ),
  fairlead_config_info: gauge(
    'Hash of the configuration in force, without hostnameOverride',
    'hash',
  ),
  fairlead_config_refused: gauge(
    '1 = the configuration file has changed and is not in force, mostly because it is not valid',
  ),
  fairlead_config_reloads_total: counter(
    'Times that the configuration file was read again, by what became of it',
    'result',
  ),
  fairlead_connect_time_elements: gauge(
    'Frontends and endpoints in the maps of connect-time translation',
    'ip_family',
    'map',
  ),
  fairlead_connect_time_elements_max: gauge(
    'The most frontends and endpoints in the maps of connect-time translation',
    'ip_family',
    'map',
  ),
  fairlead_connect_time_excluded_pods: gauge(
    'Pods that --connect-time-excluded-pods chooses, by whether their cgroup is found',
    'cgroup',
  ),
  fairlead_connect_time_lease_failures_total: counter(
    'Times that the lease of connect-time programs was not renewed when it was due',
    'ip_family',
  ),
  fairlead_connect_time_left_to_rules: gauge(
    'Service ports with frontends that only rules translate, by reason; see --connect-time',
    'ip_family',
    'reason',
  ),
  fairlead_connect_time_state: gauge(
    'The present state is 1. stale: translation by programs that no process updates; ' +
      'unknown: attached programs may be such; see --connect-time',
    'state',
  ),
  fairlead_conntrack_entries: gauge('Connections that connection tracking holds'),
  fairlead_conntrack_failures_total: counter(
    'Readings and deletions of conntrack entries that the kernel refused',
    'ip_family',
  ),
  fairlead_conntrack_limit: gauge(
    'The most connections that connection tracking holds (nf_conntrack_max)',
  ),
  fairlead_conntrack_losses_total: counter(
    'Losses of connection tracking since the machine started. dropped: packets without ' +
      'room; evicted: entries deleted early; clashed: packets that lost a race',
    'kind',
  ),
  fairlead_drift_repaired_total: counter(
    'Objects in the kernel that were not as written, by who else wrote',
    'ip_family',
    'kind',
    'writers',
  ),
  fairlead_endpoint_ejections_total: counter(
    'How often an endpoint was left out because it did not answer; see --failure-detection',
  ),
  fairlead_endpoint_probes_total: counter(
    'Probes of endpoints: succeeded, failed, not_tried (this node could not, which says ' +
      'nothing about the endpoint)',
    'result',
  ),
  fairlead_endpoint_returns_total: counter('How often such an endpoint got new connections again'),
  fairlead_event_loop_delay_seconds: gauge(
    'Turns of the event loop since the last scrape',
    'percentile',
  ),
  fairlead_first_list_missing_seconds: gauge(
    'Time for which the first list has been missing; 0 once it is complete',
    'resource',
  ),
  fairlead_foreign_tables_replaced_total: counter(
    'Tables of our names, made by another program, that ours replaced',
  ),
  fairlead_followed_endpoints: gauge(
    'Endpoints that failure detection follows: answering, silent, ejected; left_out: ' +
      'not followed, because there are too many',
    'state',
  ),
  fairlead_healthy: gauge('1 = fairlead status reports no problem of the proxy, 0 = it does'),
  fairlead_ipvs_connections_total: ofIPVS('Connections'),
  fairlead_ipvs_in_bytes_total: ofIPVS('Bytes from clients'),
  fairlead_ipvs_in_packets_total: ofIPVS('Packets from clients'),
  fairlead_ipvs_metrics_left_out: gauge(
    `Virtual services and real servers without series, because ${ipvsServersMax} others have them, shared fairly between namespaces; see --ipvs-counters`,
  ),
  fairlead_ipvs_out_bytes_total: ofIPVS('Bytes to clients'),
  fairlead_ipvs_out_packets_total: ofIPVS('Packets to clients'),
  fairlead_ipvs_real_server_connections: gauge(
    'Connections that a real server has at present, by state; see --ipvs-counters',
    ...virtualService,
    'state',
  ),
  fairlead_kernel_writes_total: counter(
    'Objects written to the kernel or deleted',
    'ip_family',
    'purpose',
  ),
  fairlead_lists_total: counter(
    'Lists of the API server, as streams or in pages',
    'resource',
    'way',
    'result',
  ),
  fairlead_log_lines_left_out_total: counter(
    'Log lines left out because a reader had stopped or a disk was full',
  ),
  fairlead_miscounts_total: counter(
    'Sets and maps found with a wrong number of elements',
    'ip_family',
  ),
  fairlead_mode_fallbacks_total: counter('Modes that cannot run on this node', 'from', 'to'),
  fairlead_mode_info: gauge(
    'Mode that runs, and the mode that the configuration asks for (auto: none)',
    'mode',
    'requested',
  ),
  fairlead_old_connections_ended_total: counter(
    'Connections that were older than their Service allows, and were ended',
    'ip_family',
  ),
  fairlead_reports_left_out_total: counter(
    'Log lines and events about one object beyond the allowed number',
  ),
  fairlead_service_bytes_missed_connections_total: counter(
    'Ended connections, not only to Services, whose bytes were not counted',
  ),
  fairlead_service_bytes_total: counter(
    `Bytes of ended connections, from clients (in) and to them; ${outcomePortsMax} Service ports; see --service-bytes`,
    ...servicePort,
    'direction',
  ),
  fairlead_service_connections_total: counter(
    'Connections that clients opened to a Service port, with or without endpoints; see ' +
      '--service-metrics',
    ...servicePort,
  ),
  fairlead_service_metrics_left_out: gauge(
    `Service ports with traffic, but without series, because ${servicePortsMax} others have them, shared fairly between namespaces`,
  ),
  fairlead_service_outcomes_total: counter(
    `Connections to endpoints: tried, of those answered and reset; the rest without answer. Mode nftables, ${outcomePortsMax} Service ports, shared fairly between namespaces; see --service-metrics`,
    ...servicePort,
    'outcome',
  ),
  fairlead_object_bytes: gauge('Bytes of the heap, about, that Services and EndpointSlices take'),
  fairlead_object_bytes_max: gauge(
    'Bytes that they may take; beyond it, new ones of the largest namespace are left out',
  ),
  fairlead_objects_left_out: gauge(
    'Services and EndpointSlices that are left out: memory has no room',
  ),
  fairlead_service_ports: gauge('Ports of Services that are to be in force', 'ip_family'),
  fairlead_service_ports_set_aside: gauge('Ports of Services that the kernel refuses', 'ip_family'),
  fairlead_service_problems_total: counter(
    'Services that lost a frontend (conflict) or are not understood',
    'kind',
  ),
  fairlead_service_refusals_total: counter(
    'Refused packets, by reason; without a Service: to unused ClusterIPs; see ' +
      '--service-metrics',
    ...servicePort,
    'reason',
  ),
  fairlead_services_over_limit: gauge('Services that exceed a limit, and are served in part'),
  fairlead_services_with_problems: gauge(
    'Services with problems on this node, at most 5 s ago; one may have several reasons',
    'reason',
  ),
  fairlead_socket_buffer_bytes: gauge(
    'Bytes in buffers of connections of sockets of Services, in the kernel and this process',
  ),
  fairlead_socket_buffer_bytes_max: gauge('Bytes that may wait in these buffers'),
  fairlead_socket_clients_refused_total: counter(
    'Connections closed and datagrams dropped at a limit of file descriptors: of all ' +
      'sockets, one frontend or one client address',
    'bound',
  ),
  fairlead_socket_connections_ended_total: counter(
    'Connections reset at a limit of waiting bytes: of all sockets, one frontend or one ' +
      'client address',
    'bound',
  ),
  fairlead_socket_datagrams_dropped_total: counter(
    'Datagrams dropped at a limit of bytes to send: of all sockets, one frontend or one ' +
      'client address',
    'bound',
  ),
  fairlead_socket_descriptors: gauge(
    'File descriptors of sockets: mode userspace, and node ports on loopback addresses',
  ),
  fairlead_socket_descriptors_max: gauge('File descriptors that these sockets may use'),
  fairlead_stage_duration_seconds: histogram(
    'Stages of the oldest change of a batch',
    [0.0001, 0.00025, 0.0005, ...exponential],
    'ip_family',
    'stage',
  ),
  fairlead_sync_work_seconds_total: counter(
    'Time of syncs, with waiting for the kernel',
    'ip_family',
  ),
  fairlead_takeover_removed_total: counter('Objects of kube-proxy that were removed', 'kind'),
  fairlead_watch_silence_seconds: gauge(
    'Time since the API server last sent anything, for each watch',
    'resource',
  ),

  fairlead_zone_bytes_total: counter('These bytes by zone; empty: not known', 'from', 'to'),

  // kube-proxy's.
  kubeproxy_conntrack_reconciler_deleted_entries_total: counter(
    '[ALPHA] Conntrack entries deleted because they contradicted Services',
    'ip_family',
  ),
  kubeproxy_conntrack_reconciler_sync_duration_seconds: histogram(
    '[ALPHA] Time to find the conntrack entries that contradict Services, and delete them',
    exponential,
    'ip_family',
  ),
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total: counter(
    '[ALPHA] Packets dropped that are of no connection',
  ),
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total: counter(
    '[ALPHA] Packets to node ports on loopback addresses that were accepted',
  ),
  kubeproxy_iptables_sync_total: counter(
    '[ALPHA] Syncs of mode iptables that succeeded',
    'ip_family',
  ),
  kubeproxy_ipvs_sync_total: counter('[ALPHA] Syncs of mode ipvs that succeeded', 'ip_family'),
  kubeproxy_network_programming_duration_seconds: histogram(
    '[ALPHA] From the change of an endpoint in the cluster until the kernel has it',
    programming,
    'ip_family',
  ),
  kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total: counter(
    '[ALPHA] Times that a socket for a node port on the loopback address could not be opened',
    'ip_family',
  ),
  kubeproxy_nftables_localhost_nodeport_listeners: gauge(
    '[ALPHA] Sockets that listen for node ports on the loopback address',
    'ip_family',
  ),
  kubeproxy_proxy_healthz_total: counter('[ALPHA] Answers of /healthz by status', 'code'),
  kubeproxy_proxy_livez_total: counter('[ALPHA] Answers of /livez by status', 'code'),
  kubeproxy_sync_full_proxy_rules_duration_seconds: histogram(
    '[ALPHA] Duration of a sync that reads the kernel and repairs the difference',
    exponential,
    'ip_family',
  ),
  kubeproxy_sync_partial_proxy_rules_duration_seconds: histogram(
    '[ALPHA] Duration of a sync that writes what changed',
    exponential,
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_duration_seconds: histogram(
    '[ALPHA] Duration of a sync',
    exponential,
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: gauge(
    '[ALPHA] Changes of EndpointSlices that no sync has taken yet',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_total: counter('[ALPHA] Changes of EndpointSlices'),
  kubeproxy_sync_proxy_rules_iptables_last: gauge(
    '[ALPHA] Rules that the last sync wrote',
    'table',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total: counter(
    '[ALPHA] Failed syncs that were to write what changed',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_iptables_restore_failures_total: counter(
    '[ALPHA] Failed syncs',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_iptables_total: gauge(
    '[ALPHA] Rules of ours, without jumps from built-in chains',
    'table',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds: gauge(
    '[ALPHA] When a sync was last asked for',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_last_timestamp_seconds: gauge(
    '[ALPHA] When the last sync succeeded',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total: counter(
    '[ALPHA] Deletions of unused objects that the kernel refused',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_nftables_sync_failures_total: counter(
    '[ALPHA] Failed syncs',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_no_local_endpoints_total: gauge(
    '[ALPHA] Ports of Services whose policy is Local and that have no endpoint here',
    'traffic_policy',
    'ip_family',
  ),
  kubeproxy_sync_proxy_rules_service_changes_pending: gauge(
    '[ALPHA] Changes of Services that no sync has taken yet',
  ),
  kubeproxy_sync_proxy_rules_service_changes_total: counter('[ALPHA] Changes of Services'),
  kubernetes_build_info: gauge(
    '[ALPHA] Version of the API server that this program serves, once it has said it',
    'major',
    'minor',
    'git_version',
    'platform',
  ),
  kubernetes_feature_enabled: gauge('[BETA] Whether a feature gate is enabled', 'name', 'stage'),
  kubernetes_healthcheck: gauge(
    '[STABLE] Whether a health check was good when it was last asked for',
    'name',
    'type',
  ),
  kubernetes_healthchecks_total: counter(
    '[STABLE] Times that a health check was asked for, by its result',
    'name',
    'type',
    'status',
  ),
  nodejs_eventloop_lag_seconds: gauge('Lag of event loop in seconds.'),
  rest_client_exec_plugin_call_total: counter(
    '[ALPHA] Runs of the credential plugin of the kubeconfig, by what became of them',
    'code',
    'call_status',
  ),
  rest_client_exec_plugin_certificate_rotation_age: histogram(
    '[ALPHA] Age in seconds of a client certificate of the plugin when another one replaced it',
    rotations,
  ),
  rest_client_exec_plugin_ttl_seconds: gauge(
    '[ALPHA] Time until the client certificate of the credential plugin expires; +Inf without one',
  ),
  rest_client_request_duration_seconds: histogram(
    '[ALPHA] Time until the answer of the API server began',
    requests,
    'verb',
    'host',
  ),
  rest_client_request_size_bytes: histogram(
    '[ALPHA] Bodies of requests to the API server, except watches',
    bodySizes,
    'verb',
    'host',
  ),
  rest_client_requests_total: counter(
    '[ALPHA] Requests to the API server by status, method and host',
    'code',
    'method',
    'host',
  ),
  rest_client_response_size_bytes: histogram(
    '[ALPHA] Bodies of complete answers of the API server, except watches',
    bodySizes,
    'verb',
    'host',
  ),
} as const;

export type MetricName = keyof typeof metricTable;

export type MetricOf<N extends MetricName> =
  (typeof metricTable)[N] extends Row<infer T, infer L>
    ? { counter: Counter<L>; gauge: Gauge<L>; histogram: Histogram<L> }[T]
    : never;

/** Names of metrics whose values are read when Prometheus asks. */
type ReadName = {
  [N in MetricName]: (typeof metricTable)[N] extends Row<'histogram'> ? never : N;
}[MetricName];

/** A value with its labels. */
type Sample<N extends MetricName> =
  (typeof metricTable)[N] extends Row<Type, infer L>
    ? readonly [labels: Readonly<Record<L, string>>, value: number]
    : never;

/** A metric without labels may have one value alone, or none. */
type Read<N extends ReadName> =
  | Iterable<Sample<N>>
  | ((typeof metricTable)[N] extends Row<Type, never> ? number | undefined : never);

/** Makes a metric, in `registry` unless that is undefined. `collect` runs when Prometheus asks. */
export function metric<N extends MetricName>(
  name: N,
  registry: Registry | undefined,
  collect?: (metric: MetricOf<N>) => Promise<void> | void,
): MetricOf<N> {
  const { type, help, labels, buckets }: Row = metricTable[name];
  const options = {
    name,
    help,
    labelNames: [...labels],
    registers: registry === undefined ? [] : [registry],
    ...(collect && { collect: () => collect(made) }),
  };
  const made = (
    type === 'counter'
      ? new Counter(options)
      : type === 'gauge'
        ? new Gauge(options)
        : new Histogram({ ...options, buckets: [...(buckets ?? [])] })
  ) as MetricOf<N>;
  return made;
}

/** Makes a metric that has, each time that Prometheus asks, the samples of that moment alone. */
export function readMetric<N extends ReadName>(
  name: N,
  registry: Registry | undefined,
  read: () => Read<N> | Promise<Read<N>>,
): MetricOf<N> {
  return metric(name, registry, async (made) => {
    const samples = (await read()) as Iterable<Sample<N>> | number | undefined;
    const all = made as Counter | Gauge;
    all.reset();
    // A metric without labels would be left with a sample of value 0.
    if (metricTable[name].labels.length === 0) all.remove();
    const some = typeof samples === 'number' ? [[{}, samples] as const] : samples;
    for (const [labels, value] of some ?? []) {
      if (all instanceof Gauge) all.set(labels, value);
      else all.inc(labels, value);
    }
  });
}
