/** Rows about the kernel, connections, and the proxy's process. */
import { percentile, type Row, rate, syncs, window } from './panel.ts';

export const quarantine: Row = {
  title: 'Quarantine',
  panels: [
    {
      title: 'Ports of Services that the kernel refuses',
      meaning: 'They are tried again. Other Services are not affected. The log names them.',
      queries: { '{{instance}}': 'sum by (instance) (fairlead_service_ports_set_aside{$of})' },
    },
    {
      title: 'Syncs that failed',
      meaning: 'The kernel refused a batch.',
      unit: 'ops',
      queries: {
        nftables: `sum(rate(${syncs}_nftables_sync_failures_total{$of}${window}))`,
        'iptables, ipvs': `sum(rate(${syncs}_iptables_restore_failures_total{$of}${window}))`,
      },
    },
    {
      title: 'Services served in part',
      meaning: 'They ask for more than the limits for one Service.',
      queries: { 'most on a node': 'max(fairlead_services_over_limit{$of})' },
    },
    {
      title: 'Services with a problem',
      meaning: 'conflict: another Service has the same address and port.',
      unit: 'ops',
      queries: { '{{kind}}': rate('fairlead_service_problems_total', 'kind') },
    },
    {
      title: 'Policy Local without an endpoint on the node',
      meaning: 'Such nodes drop their traffic, which is correct.',
      queries: {
        '{{traffic_policy}}': `max by (traffic_policy) (${syncs}_no_local_endpoints_total{$of})`,
      },
    },
    {
      title: 'Session affinity that fills up',
      meaning: 'At 1, new clients have no affinity: each connection may get another endpoint.',
      unit: 'percentunit',
      queries: {
        '{{service_port}} {{ip_family}}':
          'max by (service_port, ip_family) (fairlead_affinity_fill_ratio{$of})',
      },
    },
  ],
};

export const conntrack: Row = {
  title: 'Connection tracking',
  panels: [
    {
      title: 'Use of the table',
      meaning: 'At 1 the kernel drops the packets of all new connections on the node.',
      unit: 'percentunit',
      queries: {
        '{{instance}}': 'topk(5, fairlead_conntrack_entries{$of} / fairlead_conntrack_limit{$of})',
      },
    },
    {
      title: 'Entries and limit, of the nodes together',
      meaning: 'The limit is conntrack.maxPerCore times the cores, at least conntrack.min.',
      queries: {
        entries: 'sum(fairlead_conntrack_entries{$of})',
        limit: 'sum(fairlead_conntrack_limit{$of})',
      },
    },
    {
      title: 'Lost for want of room',
      meaning:
        'dropped: new connections fail. clashed: two packets of one flow arrived at the same time, as with DNS.',
      unit: 'ops',
      queries: { '{{kind}}': rate('fairlead_conntrack_losses_total', 'kind') },
    },
    {
      title: 'Stale entries deleted',
      meaning:
        'Entries of UDP that contradict Services. They would send clients to removed endpoints.',
      unit: 'ops',
      queries: {
        '{{ip_family}}': rate('kubeproxy_conntrack_reconciler_deleted_entries_total', 'ip_family'),
      },
    },
    {
      title: 'Time to find them (p99)',
      meaning: 'It grows with the table.',
      unit: 's',
      queries: {
        '{{ip_family}}': percentile(
          0.99,
          'kubeproxy_conntrack_reconciler_sync_duration_seconds',
          'ip_family',
        ),
      },
    },
    {
      title: 'Attempts that failed',
      meaning: 'The kernel refused to list or to delete entries.',
      unit: 'ops',
      queries: { '{{instance}}': rate('fairlead_conntrack_failures_total', 'instance') },
    },
  ],
};

const byService = 'namespace, service, port';

/** Has data only with --service-metrics. */
export const services: Row = {
  title: "Services' connections (--service-metrics)",
  panels: [
    {
      title: 'Connections, the ten Services with most',
      meaning: 'New connections per second on the chosen nodes. For UDP these are flows.',
      unit: 'cps',
      queries: {
        '{{namespace}}/{{service}}:{{port}}': `topk(10, ${rate('fairlead_service_connections_total', byService)})`,
      },
    },
    {
      title: 'Refusals, the ten Services with most',
      meaning: 'Refused packets of clients. A packet that is sent again counts again.',
      unit: 'ops',
      queries: {
        '{{namespace}}/{{service}}:{{port}}, {{reason}}': `topk(10, ${rate('fairlead_service_refusals_total', `${byService}, reason`)})`,
      },
    },
    {
      title: 'Connections that no endpoint accepted, the ten Services with most',
      meaning: 'Refused by an endpoint, or not answered. Mode nftables counts this.',
      unit: 'cps',
      queries: {
        '{{namespace}}/{{service}}:{{port}}, refused': `topk(10, ${rate('fairlead_service_outcomes_total', byService, '$of, outcome="reset"')})`,
        '{{namespace}}/{{service}}:{{port}}, all':
          `topk(10, ${rate('fairlead_service_outcomes_total', byService, '$of, outcome="tried"')}` +
          ` - ${rate('fairlead_service_outcomes_total', byService, '$of, outcome="answered"')})`,
      },
    },
    {
      title: 'Refusals by reason',
      meaning: 'no_local_endpoints: load balancers send to nodes without endpoints.',
      unit: 'ops',
      queries: {
        '{{reason}}': rate('fairlead_service_refusals_total', 'reason'),
        'Service ports without series': 'max(fairlead_service_metrics_left_out{$of})',
      },
    },
  ],
};

export const process: Row = {
  title: 'Process',
  panels: [
    {
      title: 'CPU, of a core',
      meaning: 'The nodes with the highest use. It follows the changes of the cluster.',
      unit: 'percentunit',
      queries: {
        '{{instance}}':
          `topk(5, rate(process_cpu_seconds_total{$of}${window}) ` +
          'and on (instance) fairlead_build_info)',
      },
    },
    {
      title: 'Memory, resident',
      meaning: '60 to 85 MB, and 45 MB more for each 8,000 Services of 30 endpoints.',
      unit: 'bytes',
      queries: {
        '{{instance}}':
          'topk(5, process_resident_memory_bytes{$of} and on (instance) fairlead_build_info)',
      },
    },
    {
      title: 'Heap of V8 in use',
      meaning: 'It falls with each collection. A heap that grows for hours is a leak.',
      unit: 'bytes',
      queries: { '{{instance}}': 'topk(5, nodejs_heap_size_used_bytes{$of})' },
    },
    {
      title: 'Delay of the event loop',
      meaning: 'The delay since the last scrape. 10 ms is much.',
      unit: 's',
      queries: {
        'p{{percentile}}': 'max by (percentile) (fairlead_event_loop_delay_seconds{$of})',
      },
    },
    {
      title: 'Collections of garbage, of a core',
      meaning: 'Above 0.1 the heap is too small for the cluster.',
      unit: 'percentunit',
      queries: { '{{kind}}': `max by (kind) (rate(nodejs_gc_duration_seconds_sum{$of}${window}))` },
    },
    {
      title: 'Lost reports',
      meaning: 'Dropped log lines (nothing read them), reports and events (they were too many).',
      unit: 'ops',
      queries: {
        'lines of the log': `sum(rate(fairlead_log_lines_left_out_total{$of}${window}))`,
        reports: `sum(rate(fairlead_reports_left_out_total{$of}${window}))`,
        'events, {{reason}}': rate('fairlead_cluster_events_dropped_total', 'reason'),
      },
    },
  ],
};
