/** The first row: numbers that say whether all is well, and a table of the nodes. */
import { type Row, syncs } from './panel.ts';

const due = `(${syncs}_last_queued_timestamp_seconds{$of} > bool ${syncs}_last_timestamp_seconds{$of})`;
const age = `(time() - ${syncs}_last_timestamp_seconds{$of})`;

export const overview: Row = {
  title: 'Overview',
  panels: [
    {
      title: 'Nodes that answer',
      meaning: 'Proxies that Prometheus scrapes.',
      queries: { nodes: 'count(fairlead_build_info{$of})' },
      stat: {},
    },
    {
      title: 'Nodes that do not',
      meaning: 'They have answered within a day. The alert is FairleadDown.',
      queries: { nodes: 'count(instance:up:fairlead{$of} == 0) or vector(0)' },
      stat: { redFrom: 1 },
    },
    {
      title: 'Unhealthy nodes',
      meaning: '`fairlead status` on the node names the problem.',
      queries: { nodes: 'count(fairlead_healthy{$of} == 0) or vector(0)' },
      stat: { redFrom: 1 },
    },
    {
      title: 'Longest overdue sync',
      meaning: 'Time since the last sync that succeeded, where one is due.',
      unit: 's',
      queries: { overdue: `max(${age} * ${due})` },
      stat: { redFrom: 60 },
    },
    {
      title: 'Ports that the kernel refuses',
      meaning: 'Ports of Services in quarantine, on all nodes.',
      queries: { ports: 'sum(fairlead_service_ports_set_aside{$of})' },
      stat: { redFrom: 1 },
    },
    {
      title: 'Repairs in an hour',
      meaning: 'Objects that differed from what they should be.',
      queries: { objects: 'sum(increase(fairlead_drift_repaired_total{$of}[1h])) or vector(0)' },
      stat: { redFrom: 1 },
    },
    {
      title: 'Configurations',
      meaning: 'Nodes should have the same one, apart from their names.',
      queries: { configurations: 'count(count by (hash) (fairlead_config_info{$of}))' },
      stat: { redFrom: 2 },
    },
    {
      title: 'Services with problems',
      meaning: 'On the node that has most. `fairlead service show` says more of each.',
      queries: {
        most: 'max(sum by (instance) (fairlead_services_with_problems{$of})) or vector(0)',
      },
      stat: {},
    },
  ],
  table: {
    title: 'Nodes',
    meaning: 'One row a node: what it runs, and how it is.',
    columns: {
      Version: {
        query: 'max by (instance, version) (fairlead_build_info{$of})',
        label: 'version',
      },
      Mode: { query: 'max by (instance, mode) (fairlead_mode_info{$of})', label: 'mode' },
      Configuration: {
        query: 'max by (instance, hash) (fairlead_config_info{$of})',
        label: 'hash',
      },
      Healthy: 'max by (instance) (fairlead_healthy{$of})',
      'Sync overdue': `max by (instance) (${age} * ${due})`,
      'Watch silent': 'max by (instance) (fairlead_watch_silence_seconds{$of})',
      'Connection tracking':
        'max by (instance) (fairlead_conntrack_entries{$of} / fairlead_conntrack_limit{$of})',
      'Starts in a day':
        'max by (instance) (changes(process_start_time_seconds{$of}[1d]) ' +
        'and on (instance) fairlead_build_info)',
      Memory:
        'max by (instance) (process_resident_memory_bytes{$of} ' +
        'and on (instance) fairlead_build_info)',
    },
    units: {
      'Sync overdue': 's',
      'Watch silent': 's',
      'Connection tracking': 'percentunit',
      Memory: 'bytes',
    },
  },
};
