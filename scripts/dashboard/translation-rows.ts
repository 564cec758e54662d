/** Rows about connect-time translation and mode ipvs. They have data only where these run. */
import { type Row, rate, window } from './panel.ts';

export const connectTime: Row = {
  title: 'Connect-time translation (--connect-time)',
  panels: [
    {
      title: 'Nodes by state',
      meaning: 'stale: programs of an earlier process translate, and no process updates them.',
      queries: { '{{state}}': 'sum by (state) (fairlead_connect_time_state{$of})' },
    },
    {
      title: 'Room in the maps',
      meaning: 'At 1 a map is full, and the next Services are handled by packet rules only.',
      unit: 'percentunit',
      queries: {
        '{{map}} {{ip_family}}':
          'max by (map, ip_family) (fairlead_connect_time_elements{$of} / fairlead_connect_time_elements_max{$of})',
      },
    },
    {
      title: 'Ports of Services that only rules translate',
      meaning: 'By reason; see docs/connect-time.md.',
      queries: {
        '{{reason}}': 'max by (reason) (fairlead_connect_time_left_to_rules{$of})',
        'renewals of the lease that failed, a second': `sum(rate(fairlead_connect_time_lease_failures_total{$of}${window}))`,
      },
    },
  ],
};

const byPort = 'virtual_service, protocol';

export const ipvs: Row = {
  title: 'Mode ipvs (--ipvs-counters)',
  panels: [
    {
      title: 'Connections, the ten virtual services with most',
      meaning: 'New connections per second on the chosen nodes.',
      unit: 'cps',
      queries: {
        '{{virtual_service}} {{protocol}}': `topk(10, ${rate('fairlead_ipvs_connections_total', byPort)})`,
      },
    },
    {
      title: 'Connections at present, by state',
      meaning: 'inactive: those that end, and all of UDP.',
      queries: { '{{state}}': 'sum by (state) (fairlead_ipvs_real_server_connections{$of})' },
    },
    {
      title: 'Bytes, from and to clients',
      meaning: 'Of all virtual services on the chosen nodes, per second.',
      unit: 'bytes',
      queries: {
        'from clients': `sum(rate(fairlead_ipvs_in_bytes_total{$of}${window}))`,
        'to clients': `sum(rate(fairlead_ipvs_out_bytes_total{$of}${window}))`,
      },
    },
  ],
};
