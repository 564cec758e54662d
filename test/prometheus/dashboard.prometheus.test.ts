import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConntrackEntries } from '../../src/kernel/conntrack-entries.ts';
import { conntrackTableMetrics, logMetrics, serviceMetrics } from '../../src/serve/collectors.ts';
import type { ServiceTraffic } from '../../src/serve/service-counters.ts';
import { resources } from '../../src/state/change.ts';
import { type Running, started, web } from '../unit/agent/running.ts';
import { quiet } from '../unit/sync/double.ts';
import { Prometheus } from './prometheus.ts';

const root = join(import.meta.dirname, '../..');

interface Board {
  readonly panels: readonly {
    readonly title: string;
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
}

/** `panel: legend` and query of each line that the dashboard draws. */
function lines(): [string, string, string][] {
  const text = readFileSync(join(root, 'deploy/grafana/fairlead.json'), 'utf8');
  const { panels } = JSON.parse(text) as Board;
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }): [string, string, string] => [title, legendFormat, expr]),
  );
}

/** Other modes and settings have these, and it takes 32,768 clients to make the last one. */
const absent = new RegExp(
  [
    '_iptables_restore_failures_total',
    'fairlead_ipvs_',
    'fairlead_connect_time_[elr]',
    'fairlead_affinity_fill_ratio',
  ].join('|'),
);

const tracking: Readonly<Record<string, string>> = {
  '/proc/sys/net/netfilter/nf_conntrack_count': '7',
  '/proc/sys/net/netfilter/nf_conntrack_max': '100',
  '/proc/net/stat/nf_conntrack': 'entries drop early_drop insert_failed\n7 1 0 2',
};

const traffic: ServiceTraffic = {
  family: 'IPv4',
  namespace: 'ns',
  service: 'web',
  port: 'http',
  protocol: 'TCP',
  connections: 7,
  refusals: new Map([['no_endpoints', 2]]),
  endpoints: new Map(),
  outcomes: { tried: 7, answered: 2, reset: 5 },
};

/** Counters without a series until something happens: it does. */
function happen({ app: { metrics } }: Running): void {
  const { lifecycle, conntrack } = metrics;
  const family = 'IPv4';
  const drift = { missing: 1, wrong: 0, unwanted: 0 };
  lifecycle.fallbacks.inc({ from: 'ipvs', to: 'nftables' });
  lifecycle.foreignTables.inc();
  lifecycle.reloads.inc({ result: 'unchanged' });
  lifecycle.eventsDropped.inc({ reason: 'rate-limited' });
  lifecycle.takenOver.inc({ kind: 'chains' }, 3);
  metrics.listed({ resource: 'nodes', method: 'paged', result: 'complete', reason: undefined });
  const flows = { family, protocol: 'UDP' } as const;
  const deleted = new ConntrackEntries(family, new Uint8Array());
  conntrack({ ...flows, kind: 'reconciled', durationMs: 1, examined: 0, deleted });
  conntrack({ ...flows, kind: 'failed', error: new Error('EPERM'), retryMs: undefined });
  metrics.requested({
    ...{ kind: 'exchange', method: 'GET', host: '192.0.2.1:6443', status: 200 },
    ...{ durationMs: 3, sentBytes: 0 },
  });
  const counts = [
    { counted: { probe: 'healthz', status: 200 }, count: 1 },
    { counted: { probe: 'livez', status: 200 }, count: 1 },
  ] as const;
  metrics.probes = { takeCounts: () => counts };
  metrics.observe({
    kind: 'committed',
    family,
    purpose: 'changes',
    forwardings: 1,
    writes: 3,
    bytes: 400,
    applyMs: 1,
    stages: undefined,
    triggerTimesMs: [Date.now() - 20],
  });
  metrics.observe({ kind: 'audited', family, durationMs: 5 });
  metrics.observe({ kind: 'miscounted', family, miscounts: [] });
  metrics.observe({ kind: 'drift', family, purpose: 'audit', drift, writers: 'others' });
  metrics.observe({ kind: 'failed', family, purpose: 'changes', failures: [], retryMs: 1 });
  metrics.observe({ kind: 'unresolvable', service: 'ns/web', text: 'no' });
}

let running: Running;
let prometheus: Prometheus;

beforeAll(async () => {
  running = await started('--manifests=/anywhere');
  const { registry } = running.app.metrics;
  logMetrics(registry, { leftOut: 0 });
  // The doubles of kernel and machine count nothing.
  const silent = [
    'service_connections_total',
    'service_refusals_total',
    'service_metrics_left_out',
    'service_outcomes_total',
  ];
  for (const name of [
    ...silent,
    'conntrack_entries',
    'conntrack_limit',
    'conntrack_losses_total',
  ]) {
    registry.removeSingleMetric(`fairlead_${name}`);
  }
  const read = async () => ({ readAtMs: 0, services: [traffic] });
  serviceMetrics(registry, { counters: { read } });
  conntrackTableMetrics(registry, { host: { read: (path) => tracking[path], list: () => [] } });
  running.source.say(...web);
  running.source.listed(...resources);
  await quiet();
  happen(running);
  const { port } = running.config.metricsBindAddress!;
  const rules = [join(root, 'deploy/chart/rules.yaml')];
  prometheus = await Prometheus.scraping(`127.0.0.1:${port}`, rules);
  await prometheus.has('fairlead_build_info', 4);
});

afterAll(async () => {
  await prometheus.stop();
  await running.stop();
});

describe.each(lines())('%s: %s', (_title, legend, written) => {
  const expr = written
    .replaceAll(/\$(cluster|job|instance)/g, '.*')
    .replaceAll('$__rate_interval', '1m')
    .replaceAll('$__range', '1h');

  it('is drawn by Prometheus, with the labels of its legend', async () => {
    if (absent.test(written)) {
      await prometheus.query(expr);
      return;
    }
    const drawn = await prometheus.drawn(expr);
    const labels = [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!);
    expect(Object.keys(drawn?.metric ?? {})).toEqual(expect.arrayContaining(labels));
    expect(drawn).toBeDefined();
  });
});

it('the rules of the dashboard can be evaluated', async () => {
  expect(await prometheus.brokenRules()).toEqual({});
});
