/**
 * The metrics for Prometheus: one table of what they are, from which they are made and documented.
 * kube-proxy's metrics have its names, labels, prefixes of help texts and buckets (behaviour
 * document 10.3), so that dashboards and alerts still work. Ours begin with `fairlead_`.
 */
import { Counter, Gauge, Histogram, type Metric, type Registry } from 'prom-client';
import { durationBoundsMs } from '../service-bytes/service-bytes.ts';

type Type = 'counter' | 'gauge' | 'histogram';

interface Row<T extends Type = Type, L extends string = string> {
  readonly type: T;
  readonly help: string;
  readonly labels: readonly L[];
  readonly buckets?: readonly number[];
}

/** What follows a name with its labels, in the table. */
type Defined<T extends Type> = Omit<Row<T>, 'labels'>;

const counter = (help: string): Defined<'counter'> => ({ type: 'counter', help });
const gauge = (help: string): Defined<'gauge'> => ({ type: 'gauge', help });
const histogram = (help: string, buckets: readonly number[]): Defined<'histogram'> => {
  return { type: 'histogram', help, buckets };
};

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

function ofIPVS(what: string): Defined<'counter'> {
  return counter(`${what} of a virtual service or real server; see --ipvs-counters`);
}

/** Virtual services and real servers with their own series: each has up to eight. */
export const ipvsServersMax = 5000;

/** Service ports with their own series: Prometheus keeps each for hours, from each node. */
export const servicePortsMax = 10_000;

/** Service ports with series of outcomes, and of bytes: to print a series takes 10 µs. */
export const outcomePortsMax = 1000;

/** By name, with the labels. */
const definitions = {
  'fairlead_affinity_fill_ratio{ip_family,service_port,pool}': gauge(
    'How full the session affinity of a Service port is, from a half. At 1, new clients ' +
      'get any endpoint each time; mode nftables',
  ),
  'fairlead_audit_duration_seconds{ip_family}': histogram('Duration of audits', exponential),
  'fairlead_audit_last_timestamp_seconds{ip_family}': gauge('Time of the last audit'),
  'fairlead_batch_bytes{ip_family}': histogram(
    'Size of the batches that the kernel took',
    Array.from({ length: 9 }, (_, k) => 64 * 8 ** k),
  ),
  'fairlead_build_info{version,node_version}': gauge('Version of this program'),
  'fairlead_cluster_events_dropped_total{reason}': counter(
    'Events that were not sent to the API server',
  ),
  'fairlead_config_info{hash}': gauge(
    'Hash of the configuration in force, without hostnameOverride',
  ),
  fairlead_config_refused: gauge(
    '1 = the configuration file has changed and is not in force, mostly because it is not valid',
  ),
  'fairlead_config_reloads_total{result}': counter(
    'Times that the configuration file was read again, by what became of it',
  ),
  'fairlead_connect_time_elements{ip_family,map}': gauge(
    'Frontends and endpoints in the maps of connect-time translation',
  ),
  'fairlead_connect_time_elements_max{ip_family,map}': gauge(
    'The most frontends and endpoints in the maps of connect-time translation',
  ),
  'fairlead_connect_time_excluded_pods{cgroup}': gauge(
    'Pods that --connect-time-excluded-pods chooses, by whether their cgroup is found',
  ),
  'fairlead_connect_time_lease_failures_total{ip_family}': counter(
    'Times that the lease of connect-time programs was not renewed when it was due',
  ),
  'fairlead_connect_time_left_to_rules{ip_family,reason}': gauge(
    'Service ports with frontends that only rules translate, by reason; see --connect-time',
  ),
  'fairlead_connect_time_state{state}': gauge(
    'The present state is 1. stale: translation by programs that no process updates; ' +
      'unknown: attached programs may be such; see --connect-time',
  ),
  fairlead_conntrack_entries: gauge('Connections that connection tracking holds'),
  'fairlead_conntrack_failures_total{ip_family}': counter(
    'Readings and deletions of conntrack entries that the kernel refused',
  ),
  fairlead_conntrack_limit: gauge(
    'The most connections that connection tracking holds (nf_conntrack_max)',
  ),
  'fairlead_conntrack_losses_total{kind}': counter(
    'Losses of connection tracking since the machine started. dropped: packets without ' +
      'room; evicted: entries deleted early; clashed: packets that lost a race',
  ),
  'fairlead_drift_repaired_total{ip_family,kind,writers}': counter(
    'Objects in the kernel that were not as written, by who else wrote',
  ),
  fairlead_endpoint_ejections_total: counter(
    'How often an endpoint was left out because it did not answer; see --failure-detection',
  ),
  'fairlead_endpoint_probes_total{result}': counter(
    'Probes of endpoints: succeeded, failed, not_tried (this node could not, which says ' +
      'nothing about the endpoint)',
  ),
  fairlead_endpoint_returns_total: counter('How often such an endpoint got new connections again'),
  'fairlead_event_loop_delay_seconds{percentile}': gauge(
    'Turns of the event loop since the last scrape',
  ),
  'fairlead_first_list_missing_seconds{resource}': gauge(
    'Time for which the first list has been missing; 0 once it is complete',
  ),
  fairlead_foreign_tables_replaced_total: counter(
    'Tables of our names, made by another program, that ours replaced',
  ),
  'fairlead_followed_endpoints{state}': gauge(
    'Endpoints that failure detection follows: answering, silent, ejected; left_out: ' +
      'not followed, because there are too many',
  ),
  fairlead_healthy: gauge('1 = fairlead status reports no problem of the proxy, 0 = it does'),
  'fairlead_ipvs_connections_total{protocol,virtual_service,real_server}': ofIPVS('Connections'),
  'fairlead_ipvs_in_bytes_total{protocol,virtual_service,real_server}':
    ofIPVS('Bytes from clients'),
  'fairlead_ipvs_in_packets_total{protocol,virtual_service,real_server}':
    ofIPVS('Packets from clients'),
  fairlead_ipvs_metrics_left_out: gauge(
    `Virtual services and real servers without series, because ${ipvsServersMax} others have them, shared fairly between namespaces; see --ipvs-counters`,
  ),
  'fairlead_ipvs_out_bytes_total{protocol,virtual_service,real_server}': ofIPVS('Bytes to clients'),
  'fairlead_ipvs_out_packets_total{protocol,virtual_service,real_server}':
    ofIPVS('Packets to clients'),
  'fairlead_ipvs_real_server_connections{protocol,virtual_service,real_server,state}': gauge(
    'Connections that a real server has at present, by state; see --ipvs-counters',
  ),
  'fairlead_kernel_writes_total{ip_family,purpose}': counter(
    'Objects written to the kernel or deleted',
  ),
  'fairlead_lists_total{resource,way,result}': counter(
    'Lists of the API server, as streams or in pages',
  ),
  fairlead_log_lines_left_out_total: counter(
    'Log lines left out because a reader had stopped or a disk was full',
  ),
  'fairlead_miscounts_total{ip_family}': counter(
    'Sets and maps found with a wrong number of elements',
  ),
  'fairlead_mode_fallbacks_total{from,to}': counter('Modes that cannot run on this node'),
  'fairlead_mode_info{mode,requested}': gauge(
    'Mode that runs, and the mode that the configuration asks for (auto: none)',
  ),
  'fairlead_old_connections_ended_total{ip_family}': counter(
    'Connections that were older than their Service allows, and were ended',
  ),
  fairlead_reports_left_out_total: counter(
    'Log lines and events about one object beyond the allowed number',
  ),
  fairlead_service_bytes_missed_connections_total: counter(
    'Ended connections, not only to Services, whose bytes were not counted',
  ),
  'fairlead_service_bytes_total{ip_family,namespace,service,port,protocol,direction}': counter(
    `Bytes of ended connections, from clients (in) and to them; ${outcomePortsMax} Service ports; see --service-bytes`,
  ),
  'fairlead_service_connection_duration_seconds{ip_family,namespace,service,port,protocol}':
    histogram(
      `Ended connections from their first packet to the last; ${outcomePortsMax} Service ports; see --service-bytes`,
      durationBoundsMs.map((ms) => ms / 1000),
    ),
  'fairlead_service_connections_total{ip_family,namespace,service,port,protocol}': counter(
    'Connections that clients opened to a Service port, with or without endpoints; see ' +
      '--service-metrics',
  ),
  fairlead_service_metrics_left_out: gauge(
    `Service ports with traffic, but without series, because ${servicePortsMax} others have them, shared fairly between namespaces`,
  ),
  'fairlead_service_outcomes_total{ip_family,namespace,service,port,protocol,outcome}': counter(
    `Connections to endpoints: tried, of those answered and reset; the rest without answer. Mode nftables, ${outcomePortsMax} Service ports, shared fairly between namespaces; see --service-metrics`,
  ),
  fairlead_object_bytes: gauge('Bytes of the heap, about, that Services and EndpointSlices take'),
  fairlead_object_bytes_max: gauge(
    'Bytes that they may take; beyond it, new ones of the largest namespace are left out',
  ),
  fairlead_objects_left_out: gauge(
    'Services and EndpointSlices that are left out: memory has no room',
  ),
  'fairlead_service_ports{ip_family}': gauge('Ports of Services that are to be in force'),
  'fairlead_service_ports_set_aside{ip_family}': gauge('Ports of Services that the kernel refuses'),
  'fairlead_service_problems_total{kind}': counter(
    'Services that lost a frontend (conflict) or are not understood',
  ),
  'fairlead_service_refusals_total{ip_family,namespace,service,port,protocol,reason}': counter(
    'Refused packets, by reason; without a Service: to unused ClusterIPs; see ' +
      '--service-metrics',
  ),
  fairlead_services_over_limit: gauge('Services that exceed a limit, and are served in part'),
  'fairlead_services_with_problems{reason}': gauge(
    'Services with problems on this node, at most 5 s ago; one may have several reasons',
  ),
  fairlead_socket_buffer_bytes: gauge(
    'Bytes in buffers of connections of sockets of Services, in the kernel and this process',
  ),
  fairlead_socket_buffer_bytes_max: gauge('Bytes that may wait in these buffers'),
  'fairlead_socket_clients_refused_total{bound}': counter(
    'Connections closed and datagrams dropped at a limit of file descriptors: of all ' +
      'sockets, one frontend or one client address',
  ),
  'fairlead_socket_connections_ended_total{bound}': counter(
    'Connections reset at a limit of waiting bytes: of all sockets, one frontend or one ' +
      'client address',
  ),
  'fairlead_socket_datagrams_dropped_total{bound}': counter(
    'Datagrams dropped at a limit of bytes to send: of all sockets, one frontend or one ' +
      'client address',
  ),
  fairlead_socket_descriptors: gauge(
    'File descriptors of sockets: mode userspace, and node ports on loopback addresses',
  ),
  fairlead_socket_descriptors_max: gauge('File descriptors that these sockets may use'),
  'fairlead_stage_duration_seconds{ip_family,stage}': histogram(
    'Stages of the oldest change of a batch',
    [0.0001, 0.00025, 0.0005, ...exponential],
  ),
  'fairlead_sync_work_seconds_total{ip_family}': counter(
    'Time of syncs, with waiting for the kernel',
  ),
  'fairlead_takeover_removed_total{kind}': counter('Objects of kube-proxy that were removed'),
  'fairlead_watch_silence_seconds{resource}': gauge(
    'Time since the API server last sent anything, for each watch',
  ),

  'fairlead_zone_bytes_total{from,to}': counter('These bytes by zone; empty: not known'),

  // kube-proxy's.
  'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family}': counter(
    '[ALPHA] Conntrack entries deleted because they contradicted Services',
  ),
  'kubeproxy_conntrack_reconciler_sync_duration_seconds{ip_family}': histogram(
    '[ALPHA] Time to find the conntrack entries that contradict Services, and delete them',
    exponential,
  ),
  kubeproxy_iptables_ct_state_invalid_dropped_packets_total: counter(
    '[ALPHA] Packets dropped that are of no connection',
  ),
  kubeproxy_iptables_localhost_nodeports_accepted_packets_total: counter(
    '[ALPHA] Packets to node ports on loopback addresses that were accepted',
  ),
  'kubeproxy_iptables_sync_total{ip_family}': counter(
    '[ALPHA] Syncs of mode iptables that succeeded',
  ),
  'kubeproxy_ipvs_sync_total{ip_family}': counter('[ALPHA] Syncs of mode ipvs that succeeded'),
  'kubeproxy_network_programming_duration_seconds{ip_family}': histogram(
    '[ALPHA] From the change of an endpoint in the cluster until the kernel has it',
    programming,
  ),
  'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family}': counter(
    '[ALPHA] Times that a socket for a node port on the loopback address could not be opened',
  ),
  'kubeproxy_nftables_localhost_nodeport_listeners{ip_family}': gauge(
    '[ALPHA] Sockets that listen for node ports on the loopback address',
  ),
  'kubeproxy_proxy_healthz_total{code}': counter('[ALPHA] Answers of /healthz by status'),
  'kubeproxy_proxy_livez_total{code}': counter('[ALPHA] Answers of /livez by status'),
  'kubeproxy_sync_full_proxy_rules_duration_seconds{ip_family}': histogram(
    '[ALPHA] Duration of a sync that reads the kernel and repairs the difference',
    exponential,
  ),
  'kubeproxy_sync_partial_proxy_rules_duration_seconds{ip_family}': histogram(
    '[ALPHA] Duration of a sync that writes what changed',
    exponential,
  ),
  'kubeproxy_sync_proxy_rules_duration_seconds{ip_family}': histogram(
    '[ALPHA] Duration of a sync',
    exponential,
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_pending: gauge(
    '[ALPHA] Changes of EndpointSlices that no sync has taken yet',
  ),
  kubeproxy_sync_proxy_rules_endpoint_changes_total: counter('[ALPHA] Changes of EndpointSlices'),
  'kubeproxy_sync_proxy_rules_iptables_last{table,ip_family}': gauge(
    '[ALPHA] Rules that the last sync wrote',
  ),
  'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family}': counter(
    '[ALPHA] Failed syncs that were to write what changed',
  ),
  'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family}':
    counter('[ALPHA] Failed syncs'),
  'kubeproxy_sync_proxy_rules_iptables_total{table,ip_family}': gauge(
    '[ALPHA] Rules of ours, without jumps from built-in chains',
  ),
  'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family}': gauge(
    '[ALPHA] When a sync was last asked for',
  ),
  'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family}': gauge(
    '[ALPHA] When the last sync succeeded',
  ),
  'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family}': counter(
    '[ALPHA] Deletions of unused objects that the kernel refused',
  ),
  'kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family}':
    counter('[ALPHA] Failed syncs'),
  'kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy,ip_family}': gauge(
    '[ALPHA] Ports of Services whose policy is Local and that have no endpoint here',
  ),
  kubeproxy_sync_proxy_rules_service_changes_pending: gauge(
    '[ALPHA] Changes of Services that no sync has taken yet',
  ),
  kubeproxy_sync_proxy_rules_service_changes_total: counter('[ALPHA] Changes of Services'),
  'kubernetes_build_info{major,minor,git_version,platform}': gauge(
    '[ALPHA] Version of the API server that this program serves, once it has said it',
  ),
  'kubernetes_feature_enabled{name,stage}': gauge('[BETA] Whether a feature gate is enabled'),
  'kubernetes_healthcheck{name,type}': gauge(
    '[STABLE] Whether a health check was good when it was last asked for',
  ),
  'kubernetes_healthchecks_total{name,type,status}': counter(
    '[STABLE] Times that a health check was asked for, by its result',
  ),
  nodejs_eventloop_lag_seconds: gauge('Lag of event loop in seconds.'),
  'rest_client_exec_plugin_call_total{code,call_status}': counter(
    '[ALPHA] Runs of the credential plugin of the kubeconfig, by what became of them',
  ),
  rest_client_exec_plugin_certificate_rotation_age: histogram(
    '[ALPHA] Age in seconds of a client certificate of the plugin when another one replaced it',
    rotations,
  ),
  rest_client_exec_plugin_ttl_seconds: gauge(
    '[ALPHA] Time until the client certificate of the credential plugin expires; +Inf without one',
  ),
  'rest_client_request_duration_seconds{verb,host}': histogram(
    '[ALPHA] Time until the answer of the API server began',
    requests,
  ),
  'rest_client_request_size_bytes{verb,host}': histogram(
    '[ALPHA] Bodies of requests to the API server, except watches',
    bodySizes,
  ),
  'rest_client_requests_total{code,method,host}': counter(
    '[ALPHA] Requests to the API server by status, method and host',
  ),
  'rest_client_response_size_bytes{verb,host}': histogram(
    '[ALPHA] Bodies of complete answers of the API server, except watches',
    bodySizes,
  ),
} as const;

type Definitions = typeof definitions;
type NameOf<Key> = Key extends `${infer Name}{${string}` ? Name : Key;
type LabelsOf<Key> = Key extends `${string}{${infer Labels}}` ? Split<Labels> : never;
type Split<Labels> = Labels extends `${infer First},${infer Rest}` ? First | Split<Rest> : Labels;

type MetricTable = {
  readonly [Key in keyof Definitions as NameOf<Key>]: Row<Definitions[Key]['type'], LabelsOf<Key>>;
};

export const metricTable = Object.fromEntries(
  Object.entries(definitions).map(([key, row]) => {
    const [name, ...labels] = key.split(/[{,}]/).filter((word) => word !== '');
    return [name, { ...row, labels }];
  }),
) as unknown as MetricTable;

export type MetricName = keyof MetricTable;

export type MetricOf<N extends MetricName> =
  MetricTable[N] extends Row<infer T, infer L>
    ? { counter: Counter<L>; gauge: Gauge<L>; histogram: Histogram<L> }[T]
    : never;

/** Names of metrics whose values are read when Prometheus asks. */
type ReadName = {
  [N in MetricName]: MetricTable[N] extends Row<'histogram'> ? never : N;
}[MetricName];

type HistogramName = Exclude<MetricName, ReadName>;

/** A value with its labels. */
type Sample<N extends MetricName> =
  MetricTable[N] extends Row<Type, infer L>
    ? readonly [labels: Readonly<Record<L, string>>, value: number]
    : never;

/** A metric without labels may have one value alone, or none. */
type Read<N extends ReadName> =
  | Iterable<Sample<N>>
  | (MetricTable[N] extends Row<Type, never> ? number | undefined : never);

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

/** What a histogram has of some labels: the values up to each bound, those above all, the sum. */
type Counted<N extends HistogramName> = readonly [
  labels: Readonly<Record<MetricTable[N] extends Row<Type, infer L> ? L : never, string>>,
  counts: readonly number[],
  sum: number,
];

/** Makes a histogram of values that were counted elsewhere: the library's own counts each value. */
export function readHistogram<N extends HistogramName>(
  name: N,
  registry: Registry,
  read: () => Promise<Iterable<Counted<N>>>,
): void {
  const { help, buckets = [] }: Row = metricTable[name];
  const get = async () => {
    const values = Array.from(await read(), ([labels, counts, sum]) => {
      const of = (suffix: string, value: number, le?: string) => {
        return { metricName: `${name}_${suffix}`, labels: le ? { ...labels, le } : labels, value };
      };
      let count = 0;
      const each = counts.map((more, i) => {
        count += more;
        return of('bucket', count, String(buckets[i] ?? '+Inf'));
      });
      return [...each, of('sum', sum), of('count', count)];
    });
    return { name, help, type: 'histogram', aggregator: 'sum', values: values.flat() };
  };
  registry.registerMetric({ name, get } as unknown as Metric);
}
