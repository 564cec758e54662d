/** Rows about the proxy: its health, latency, watches, and drift of the kernel. */
import { percentile, type Row, rate, syncs, window } from './panel.ts';

const programming = 'kubeproxy_network_programming_duration_seconds';

export const health: Row = {
  title: 'Health',
  panels: [
    {
      title: 'Nodes by version',
      meaning: 'Proxies that answer Prometheus. During an upgrade there are two versions.',
      queries: { '{{version}}': 'count by (version) (fairlead_build_info{$of})' },
    },
    {
      title: '/healthz and /livez by status',
      meaning:
        'livez 503: the proxy does not keep up. healthz 503 alone: the node drains, as it should.',
      unit: 'reqps',
      queries: {
        'healthz {{code}}': rate('kubeproxy_proxy_healthz_total', 'code'),
        'livez {{code}}': rate('kubeproxy_proxy_livez_total', 'code'),
      },
    },
    {
      title: 'Ports of Services',
      meaning: 'The desired state. Nodes differ only while a change spreads.',
      queries: {
        '{{ip_family}}, most': 'max by (ip_family) (fairlead_service_ports{$of})',
        '{{ip_family}}, fewest': 'min by (ip_family) (fairlead_service_ports{$of})',
      },
    },
    {
      title: 'Starts within an hour',
      meaning: 'More than one or two: the process keeps restarting.',
      queries: {
        '{{instance}}':
          'changes(process_start_time_seconds{$of}[1h]) and on (instance) fairlead_build_info',
      },
    },
    {
      title: 'Nodes that cannot run their mode',
      meaning: 'They run another mode. Their log says what the kernel lacks.',
      queries: {
        '{{from}} → {{to}}': 'count by (from, to) (fairlead_mode_fallbacks_total{$of} > 0)',
      },
    },
    {
      title: 'Configuration files read again',
      meaning: 'invalid: the old configuration stays in force.',
      queries: {
        '{{result}}': `sum by (result) (increase(fairlead_config_reloads_total{$of}${window}))`,
      },
    },
  ],
};

export const latency: Row = {
  title: 'Sync latency',
  panels: [
    {
      title: 'From the change of an endpoint until the kernel has it',
      meaning: 'Includes the time until the API server sends the change.',
      unit: 's',
      queries: {
        p50: percentile(0.5, programming),
        p90: percentile(0.9, programming),
        p99: percentile(0.99, programming),
      },
    },
    {
      title: 'The slowest nodes (p99)',
      meaning: 'One slow node has a problem of its own. If all are slow, look at the API server.',
      unit: 's',
      queries: { '{{instance}}': `topk(5, ${percentile(0.99, programming, 'instance')})` },
    },
    {
      title: 'Stages of a change (p99)',
      meaning: 'Fairlead resolves and encodes. The kernel commits.',
      unit: 's',
      queries: { '{{stage}}': percentile(0.99, 'fairlead_stage_duration_seconds', 'stage') },
    },
    {
      title: 'Syncs',
      meaning: 'They follow changes. A quiet cluster has few.',
      unit: 'ops',
      queries: { '{{ip_family}}': rate(`${syncs}_duration_seconds_count`, 'ip_family') },
    },
    {
      title: 'Duration of a sync (p99)',
      meaning: 'The first sync after a start reads the kernel and takes longest.',
      unit: 's',
      queries: { '{{ip_family}}': percentile(0.99, `${syncs}_duration_seconds`, 'ip_family') },
    },
    {
      title: 'Changes that wait',
      meaning: 'Each sync takes it to 0. Changes that stay are not written.',
      queries: {
        Services: `max(${syncs}_service_changes_pending{$of})`,
        EndpointSlices: `max(${syncs}_endpoint_changes_pending{$of})`,
      },
    },
    {
      title: 'Time since the last sync that succeeded, where one is due',
      meaning: 'Above a minute, the kernel refuses batches, or the process is stuck.',
      unit: 's',
      queries: {
        '{{instance}}':
          `max by (instance) ((time() - ${syncs}_last_timestamp_seconds{$of}) * ` +
          `(${syncs}_last_queued_timestamp_seconds{$of} > bool ${syncs}_last_timestamp_seconds{$of}))`,
      },
    },
    {
      title: 'Objects written to the kernel',
      meaning: 'By purpose. Changes are the normal case; audits repair drift.',
      unit: 'ops',
      queries: { '{{purpose}}': rate('fairlead_kernel_writes_total', 'purpose') },
    },
    {
      title: 'Size of a batch (p99)',
      meaning: 'Bytes that the kernel gets in one transaction.',
      unit: 'bytes',
      queries: { '{{ip_family}}': percentile(0.99, 'fairlead_batch_bytes', 'ip_family') },
    },
  ],
};

export const watches: Row = {
  title: 'API server watches',
  panels: [
    {
      title: 'Silence of the watches',
      meaning: 'A healthy server sends something each minute. Above 120 s there is a fault.',
      unit: 's',
      queries: { '{{resource}}': 'max by (resource) (fairlead_watch_silence_seconds{$of})' },
    },
    {
      title: 'First lists that are missing',
      meaning: 'A new process writes nothing to the kernel before it has all first lists.',
      unit: 's',
      queries: { '{{resource}}': 'max by (resource) (fairlead_first_list_missing_seconds{$of})' },
    },
    {
      title: 'Lists',
      meaning: 'One for each resource at a start. If there are more, watches fail.',
      unit: 'ops',
      queries: {
        '{{resource}}, {{way}}, {{result}}': rate('fairlead_lists_total', 'resource, way, result'),
      },
    },
    {
      title: 'Requests to the API server',
      meaning: 'By status. <error>: there was no answer.',
      unit: 'reqps',
      queries: { '{{method}} {{code}}': rate('rest_client_requests_total', 'method, code') },
    },
    {
      title: 'Time until its answer (p99)',
      meaning: 'Until the answer begins, since a watch does not end.',
      unit: 's',
      queries: { '{{verb}}': percentile(0.99, 'rest_client_request_duration_seconds', 'verb') },
    },
    {
      title: 'Changes in the cluster',
      meaning: 'Changes that a node receives from its watches; the average of the nodes.',
      unit: 'ops',
      queries: {
        Services: `avg(rate(${syncs}_service_changes_total{$of}${window}))`,
        EndpointSlices: `avg(rate(${syncs}_endpoint_changes_total{$of}${window}))`,
      },
    },
  ],
};

export const drift: Row = {
  title: 'Drift and repairs',
  panels: [
    {
      title: 'Objects repaired',
      meaning:
        'others: another program changes our rules. only us: a defect of Fairlead, please report.',
      unit: 'ops',
      queries: {
        '{{writers}}, {{kind}}': rate('fairlead_drift_repaired_total', 'writers, kind'),
      },
    },
    {
      title: 'Sets and maps with a wrong number of elements',
      meaning: 'After each, Fairlead compares all objects with the kernel.',
      unit: 'ops',
      queries: { '{{instance}}': rate('fairlead_miscounts_total', 'instance') },
    },
    {
      title: 'Foreign tables replaced',
      meaning: 'Another program made a table with our name. It must use another name.',
      queries: {
        '{{instance}}': 'sum by (instance) (fairlead_foreign_tables_replaced_total{$of}) > 0',
      },
    },
    {
      title: 'Time since the last comparison',
      meaning: 'Fairlead regularly compares all objects with the kernel.',
      unit: 's',
      queries: {
        '{{ip_family}}, longest ago':
          'time() - min by (ip_family) (fairlead_audit_last_timestamp_seconds{$of})',
      },
    },
    {
      title: 'Duration of a comparison (p99)',
      meaning: 'Comparisons read in parts, so that changes need not wait.',
      unit: 's',
      queries: {
        '{{ip_family}}': percentile(0.99, 'fairlead_audit_duration_seconds', 'ip_family'),
      },
    },
    {
      title: 'Objects of kube-proxy removed',
      meaning: 'Happens once, after a migration or a change of the mode.',
      queries: { '{{kind}}': 'sum by (kind) (fairlead_takeover_removed_total{$of})' },
    },
  ],
};
