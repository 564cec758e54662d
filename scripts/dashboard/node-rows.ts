/** Rows about what the proxy works with: the kernel, connections, its own process. */
import { percentile, type Row, rate, syncs, window } from './panel.ts';

export const quarantine: Row = {
  title: 'Quarantine',
  panels: [
    {
      title: 'Ports of Services that the kernel refuses',
      meaning: 'They are tried again; everything else goes on. The log names them.',
      queries: { '{{instance}}': 'sum by (instance) (fairlead_service_ports_set_aside{$of})' },
    },
    {
      title: 'Syncs that failed',
      meaning: 'The kernel refused a batch. Modes iptables and ipvs count what they restore.',
      unit: 'ops',
      queries: {
        nftables: `sum(rate(${syncs}_nftables_sync_failures_total{$of}${window}))`,
        'iptables, ipvs': `sum(rate(${syncs}_iptables_restore_failures_total{$of}${window}))`,
      },
    },
    {
      title: 'Services served in part',
      meaning: 'They ask for more than one Service gets.',
      queries: { 'most on a node': 'max(fairlead_services_over_limit{$of})' },
    },
    {
      title: 'Services with a problem',
      meaning: 'conflict: another Service has the address and port already.',
      unit: 'ops',
      queries: { '{{kind}}': rate('fairlead_service_problems_total', 'kind') },
    },
    {
      title: 'Policy Local without an endpoint on the node',
      meaning: 'Their traffic is dropped on such nodes, as it is to be.',
      queries: {
        '{{traffic_policy}}': `max by (traffic_policy) (${syncs}_no_local_endpoints_total{$of})`,
      },
    },
    {
      title: 'Session affinity that fills up',
      meaning: 'At 1, clients that are new get any endpoint each time.',
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
      meaning: 'At 1 each packet that would begin a connection is dropped, of everybody.',
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
        'dropped: new connections fail. clashed: two packets raced for one entry, as of DNS.',
      unit: 'ops',
      queries: { '{{kind}}': rate('fairlead_conntrack_losses_total', 'kind') },
    },
    {
      title: 'Stale entries deleted',
      meaning:
        'Entries that contradict Services, of UDP: they would hold clients to lost endpoints.',
      unit: 'ops',
      queries: {
        '{{ip_family}}': rate('kubeproxy_conntrack_reconciler_deleted_entries_total', 'ip_family'),
      },
    },
    {
      title: 'Time to find them (p99)',
      meaning: 'Grows with the table.',
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

/** Only with --service-metrics. */
export const services: Row = {
  title: "Services' connections (--service-metrics)",
  panels: [
    {
      title: 'Connections, the ten Services with most',
      meaning: 'New connections a second, of the nodes chosen; UDP as flows.',
      unit: 'cps',
      queries: {
        '{{namespace}}/{{service}}:{{port}}': `topk(10, ${rate('fairlead_service_connections_total', byService)})`,
      },
    },
    {
      title: 'Refusals, the ten Services with most',
      meaning: 'Packets of clients that were refused; who sends again counts again.',
      unit: 'ops',
      queries: {
        '{{namespace}}/{{service}}:{{port}}, {{reason}}': `topk(10, ${rate('fairlead_service_refusals_total', `${byService}, reason`)})`,
      },
    },
    {
      title: 'Refusals by reason',
      meaning: 'no_local_endpoints: load balancers send to nodes that have none.',
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
      meaning: 'The highest; it follows the changes of the cluster.',
      unit: 'percentunit',
      queries: {
        '{{instance}}':
          `topk(5, rate(process_cpu_seconds_total{$of}${window}) ` +
          'and on (instance) fairlead_build_info)',
      },
    },
    {
      title: 'Memory, resident',
      meaning: 'About 85 MB, and 100 MB for each 8,000 Services of 30 endpoints.',
      unit: 'bytes',
      queries: {
        '{{instance}}':
          'topk(5, process_resident_memory_bytes{$of} and on (instance) fairlead_build_info)',
      },
    },
    {
      title: 'Heap of V8 in use',
      meaning: 'Falls with each collection. What rises for hours is a leak.',
      unit: 'bytes',
      queries: { '{{instance}}': 'topk(5, nodejs_heap_size_used_bytes{$of})' },
    },
    {
      title: 'Delay of the event loop',
      meaning: 'How late it was since the scrape before; 10 ms is much.',
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
      title: 'What nobody was told',
      meaning: 'Lines of the log that nobody read, reports and events that were too many.',
      unit: 'ops',
      queries: {
        'lines of the log': `sum(rate(fairlead_log_lines_left_out_total{$of}${window}))`,
        reports: `sum(rate(fairlead_reports_left_out_total{$of}${window}))`,
        'events, {{reason}}': rate('fairlead_cluster_events_dropped_total', 'reason'),
      },
    },
  ],
};
