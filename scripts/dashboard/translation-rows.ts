/** The row about connect-time translation. It has data only where that runs. */
import { type Row, window } from './panel.ts';

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
