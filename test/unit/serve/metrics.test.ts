import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { fairleadVersion } from '../../../src/config/version.ts';
import { builtModes } from '../../../src/modes/index.ts';
import type { AgentState, RunningEngine } from '../../../src/serve/ask/agent-state.ts';
import { buildMetrics, gateMetrics, stateMetrics } from '../../../src/serve/collectors.ts';
import { Metrics } from '../../../src/serve/metrics.ts';
import type { ServerVersion } from '../../../src/source/source.ts';
import type { Resource } from '../../../src/state/change.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { TrackedForwardings } from '../../../src/sync/tracked.ts';
import { ready, readyLocal, service, slice } from '../state/build.ts';
import { committed } from './committed.ts';

const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true };
const wanted = new Map<string, Forwarding>();
let metrics: Metrics;
let serverVersion: ServerVersion | undefined;

beforeEach(() => {
  wanted.clear();
  serverVersion = undefined;
  metrics = new Metrics(async () => [{ name: 'localhost_nps_accepted_pkts', packets: 5 }]);
  const gates = {
    AllowServiceExternalIPs: true,
    ComponentFlagz: false,
    LoggingAlphaOptions: true,
  };
  const { unreached } = new TrackedForwardings('IPv4', { now: () => 0 });
  const families = [{ family: 'IPv4', desired: wanted, quarantined: { size: 1 }, unreached }];
  const agent: unknown = {
    config: { featureGates: gates },
    source: {
      condition: (resource: Resource) => ({
        silenceMs: resource === 'services' ? 2500 : undefined,
        missingMs: resource === 'nodes' ? 7500 : undefined,
      }),
      serverVersion: () => serverVersion,
    },
    engine: { families, overLimit: 3 },
    heapGuard: { bytes: { taken: 5, max: 10 }, leftOut: { count: 4, namespaces: () => [] } },
    localhostListeners: () => 2,
  };
  for (const add of [stateMetrics, buildMetrics, gateMetrics]) {
    add(metrics.registry, agent as AgentState);
  }
  metrics.running(builtModes().get('nftables')!);
});

afterEach(() => {
  metrics.close();
});

/** Lines of the exposition that begin so, without the prefix. */
async function lines(prefix: string): Promise<string[]> {
  const text = await metrics.registry.metrics();
  return text.split('\n').flatMap((line) => (line.startsWith(prefix) ? [line] : []));
}

it('metrics have the times of syncs, however much later they are read', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 });
  onTestFinished(() => void vi.useRealTimers());
  metrics.observe({ kind: 'queued', family: 'IPv4' });
  vi.setSystemTime(5_000_000);
  const name = 'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds';
  expect(await lines(name)).toEqual([`${name}{ip_family="IPv4"} 1000`]);
});

describe('the metrics', () => {
  const took = { durationMs: 3, workMs: 1 };
  const done = { kind: 'done', family: 'IPv4', purpose: 'changes', ...took } as const;
  const everyMode = [
    'conntrack_reconciler_deleted_entries_total counter',
    'conntrack_reconciler_sync_duration_seconds histogram',
    'nftables_localhost_nodeport_listener_creation_failures_total counter',
    'nftables_localhost_nodeport_listeners gauge',
    'network_programming_duration_seconds histogram',
    'proxy_healthz_total counter',
    'proxy_livez_total counter',
    'sync_proxy_rules_duration_seconds histogram',
    'sync_proxy_rules_endpoint_changes_pending gauge',
    'sync_proxy_rules_endpoint_changes_total counter',
    'sync_proxy_rules_last_queued_timestamp_seconds gauge',
    'sync_proxy_rules_last_timestamp_seconds gauge',
    'sync_proxy_rules_no_local_endpoints_total gauge',
    'sync_proxy_rules_service_changes_pending gauge',
    'sync_proxy_rules_service_changes_total counter',
  ];
  const fullAndPartial = [
    'sync_full_proxy_rules_duration_seconds histogram',
    'sync_partial_proxy_rules_duration_seconds histogram',
  ];

  it.each([
    [
      'nftables',
      [
        ...fullAndPartial,
        'sync_proxy_rules_nftables_cleanup_failures_total counter',
        'sync_proxy_rules_nftables_sync_failures_total counter',
      ],
    ],
    [
      'iptables',
      [
        ...fullAndPartial,
        'iptables_ct_state_invalid_dropped_packets_total counter',
        'iptables_localhost_nodeports_accepted_packets_total counter',
        'iptables_sync_total counter',
        'sync_proxy_rules_iptables_last gauge',
        'sync_proxy_rules_iptables_partial_restore_failures_total counter',
        'sync_proxy_rules_iptables_restore_failures_total counter',
        'sync_proxy_rules_iptables_total gauge',
      ],
    ],
    [
      'ipvs',
      ['ipvs_sync_total counter', 'sync_proxy_rules_iptables_restore_failures_total counter'],
    ],
    ['userspace', []],
  ] as const)('have the names of kube-proxy in mode %s', async (mode, own) => {
    metrics.running(builtModes().get(mode)!);
    const prefix = '# TYPE kubeproxy_';
    const names = (await lines(prefix)).map((line) => line.slice(prefix.length));
    expect(names.sort()).toEqual([...everyMode, ...own].sort());
    for (const help of await lines('# HELP kubeproxy_')) expect(help).toContain(' [ALPHA] ');
  });

  it('use no label that Prometheus reserves', async () => {
    const text = await metrics.registry.metrics();
    const summaries = [...text.matchAll(/^# TYPE (\S+) (?:summary|histogram)$/gm)].map(
      ([, n]) => n,
    );
    const wrong = [...text.matchAll(/^([a-z_]+?)(?:_bucket)?\{.*\b(?:quantile|le)=/gm)]
      .map(([, name]) => name!)
      .filter((name) => !summaries.includes(name));
    expect(wrong).toEqual([]);
  });

  it('show the version of the API server, if known, and our own', async () => {
    expect(await lines('kubernetes_build_info')).toEqual([]);
    const own = `{version="${fairleadVersion}",node_version="${process.version}"}`;
    expect(await lines('fairlead_build_info')).toEqual([`fairlead_build_info${own} 1`]);
    const platform = 'linux/amd64';
    serverVersion = { gitVersion: 'v1.34.1', major: '1', minor: '34', platform };
    expect(await lines('kubernetes_build_info')).toEqual([
      'kubernetes_build_info{major="1",minor="34",git_version="v1.34.1",platform="linux/amd64"} 1',
    ]);
    serverVersion = { ...serverVersion, gitVersion: 'v1.34.2' };
    expect(await lines('kubernetes_build_info')).toHaveLength(1);
  });

  it('start at 0 for a mode that runs again', async () => {
    const name = 'kubeproxy_sync_proxy_rules_nftables_sync_failures_total';
    const failed = { kind: 'failed', family: 'IPv4', failures: [], retryMs: 1 } as const;
    metrics.observe({ ...failed, purpose: 'recovery' });
    expect(await lines(`${name}{`)).toEqual([`${name}{ip_family="IPv4"} 1`]);
    metrics.running(builtModes().get('ipvs')!);
    expect(await lines(name)).toEqual([]);
    metrics.running(builtModes().get('nftables')!);
    expect(await lines(`${name}{`)).toEqual([]);
  });

  it('count successful syncs of modes iptables and ipvs', async () => {
    for (const mode of ['iptables', 'ipvs'] as const) {
      metrics.running(builtModes().get(mode)!);
      metrics.observe({ ...done, ok: true, healthy: true });
      metrics.observe({ ...done, ok: false, healthy: false });
      const name = `kubeproxy_${mode}_sync_total`;
      expect(await lines(`${name}{`)).toEqual([`${name}{ip_family="IPv4"} 1`]);
    }
  });

  it('show the number of rules of mode iptables, and how many the last sync wrote', async () => {
    metrics.running(builtModes().get('iptables')!);
    const rules = [{ table: 'nat', total: 12, written: 3 }];
    metrics.observe({ ...done, ok: true, healthy: true, rules });
    const name = 'kubeproxy_sync_proxy_rules_iptables';
    const labels = '{table="nat",ip_family="IPv4"}';
    expect(await lines(`${name}_total{`)).toEqual([`${name}_total${labels} 12`]);
    expect(await lines(`${name}_last{`)).toEqual([`${name}_last${labels} 3`]);
  });

  it('show named counters while mode iptables runs, and only these', async () => {
    const name = 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total';
    expect(await lines(name)).toEqual([]);
    metrics.running(builtModes().get('iptables')!);
    expect(await lines(name)).toEqual([`${name} 5`]);
    expect(await lines(name)).toEqual([`${name} 5`]);
    expect(await lines('kubeproxy_iptables_ct_state_invalid_dropped_packets_total')).toEqual([]);
  });

  it('show the enabled feature gates with their stages', async () => {
    expect((await lines('kubernetes_feature_enabled{')).sort()).toEqual([
      'kubernetes_feature_enabled{name="AllowServiceExternalIPs",stage=""} 1',
      'kubernetes_feature_enabled{name="ComponentFlagz",stage="BETA"} 0',
      'kubernetes_feature_enabled{name="LoggingAlphaOptions",stage="ALPHA"} 1',
    ]);
  });

  it('count requests to the API server with the names of client-go', async () => {
    const at = { method: 'GET', host: 'api:6443' } as const;
    const exchange = { kind: 'exchange', ...at, durationMs: 3 } as const;
    metrics.requested({ ...exchange, status: 200, sentBytes: undefined });
    metrics.requested({ ...exchange, status: undefined, sentBytes: 65 });
    metrics.requested({ kind: 'received', ...at, bytes: 16_777_217 });
    expect(await lines('rest_client_requests_total{')).toEqual([
      'rest_client_requests_total{code="200",method="GET",host="api:6443"} 1',
      'rest_client_requests_total{code="<error>",method="GET",host="api:6443"} 1',
    ]);
    const duration = 'rest_client_request_duration_seconds';
    const le = '{le="0.005",verb="GET",host="api:6443"}';
    expect(await lines(`${duration}_bucket${le}`)).toEqual([`${duration}_bucket${le} 2`]);
    const own = 'verb="GET",host="api:6443"';
    const bounds = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216];
    const counts = (name: string, first: number) => [
      ...bounds.map((le) => `${name}_bucket{le="${le}",${own}} ${le >= first ? 1 : 0}`),
      `${name}_bucket{le="+Inf",${own}} 1`,
    ];
    for (const [size, first] of [['request', 256] as const, ['response', 16777217] as const]) {
      const name = `rest_client_${size}_size_bytes`;
      expect(await lines(`${name}_bucket{`)).toEqual(counts(name, first));
    }
  });

  it('report runs and certificates of the credential plugin as client-go does', async () => {
    const [ttl, age] = ['ttl_seconds', 'certificate_rotation_age'].map(
      (name) => `rest_client_exec_plugin_${name}`,
    );
    expect(await lines(`${ttl} `)).toEqual([`${ttl} +Inf`]);
    expect(await lines(`${age}_count`)).toEqual([`${age}_count 0`]);
    metrics.requested({ kind: 'plugin-call', status: 'plugin_execution_error', code: 7 });
    const notAfterMs = Date.now() + 3_600_000;
    metrics.requested({ kind: 'plugin-certificate', notAfterMs, replacedAgeMs: 1_800_001 });
    const [call] = await lines('rest_client_exec_plugin_call_total{');
    expect(call).toBe(
      'rest_client_exec_plugin_call_total{code="7",call_status="plugin_execution_error"} 1',
    );
    const left = Number((await lines(`${ttl} `))[0]!.split(' ')[1]);
    expect(left).toBeGreaterThan(3000);
    expect(left).toBeLessThanOrEqual(3600);
    const reached = (await lines(`${age}_bucket{`)).flatMap((line) => {
      const [, le, count] = /le="([^"]+)"\} (\d+)$/.exec(line)!;
      return count === '1' ? le : [];
    });
    const days = [1, 7, 30, 90, 180, 360, 1440].map((count) => String(count * 86_400));
    expect(reached).toEqual(['3600', '14400', ...days, '+Inf']);
  });

  it('have the buckets of kube-proxy', async () => {
    metrics.observe({ ...committed, triggerTimesMs: [Date.now() - 700] });
    metrics.observe({ ...done, ok: true, healthy: true });
    const bounds = (rows: string[]): string[] => rows.map((row) => /le="([^"]+)"/.exec(row)![1]!);
    const programming = await lines('kubeproxy_network_programming_duration_seconds_bucket');
    expect(programming).toHaveLength(82);
    expect(bounds(programming).slice(0, 5)).toEqual(['0', '0.25', '0.5', '1', '2']);
    expect(bounds(programming).slice(-9).join(' ')).toBe('115 120 150 180 210 240 270 300 +Inf');
    expect(programming[2]).toMatch(/ 0$/);
    expect(programming[3]).toMatch(/ 1$/);
    const sync = await lines('kubeproxy_sync_proxy_rules_duration_seconds_bucket');
    expect(bounds(sync).slice(0, 3)).toEqual(['0.001', '0.002', '0.004']);
    expect(bounds(sync).slice(-2)).toEqual(['16.384', '+Inf']);
  });

  it('show the duration of each stage of a change', async () => {
    metrics.observe(committed);
    const sums = await lines('fairlead_stage_duration_seconds_sum');
    const seconds = Object.fromEntries(
      sums.map((row) => [/stage="(\w+)"/.exec(row)![1], Number(row.split(' ')[1])]),
    );
    expect(seconds).toEqual({ resolve: 0.001, encode: 0.002, commit: 0.004, total: 0.007 });
  });

  it('count failures by operation', async () => {
    const failed = { kind: 'failed', family: 'IPv6', failures: [], retryMs: 0 } as const;
    for (const purpose of ['changes', 'recovery', 'deferred', 'sweep'] as const) {
      metrics.observe({ ...failed, purpose });
    }
    expect(await lines('kubeproxy_sync_proxy_rules_nftables')).toEqual([
      'kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 2',
      'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv6"} 1',
    ]);
  });

  it('count drift, except that of a start', async () => {
    const drift = { missing: 3, wrong: 2, unwanted: 0 };
    metrics.observe({ kind: 'drift', writers: 'others', family: 'IPv4', purpose: 'start', drift });
    metrics.observe({ kind: 'drift', writers: 'others', family: 'IPv4', purpose: 'audit', drift });
    expect(await lines('fairlead_drift_repaired_total')).toEqual([
      'fairlead_drift_repaired_total{ip_family="IPv4",kind="missing",writers="others"} 3',
      'fairlead_drift_repaired_total{ip_family="IPv4",kind="wrong",writers="others"} 2',
      'fairlead_drift_repaired_total{ip_family="IPv4",kind="unwanted",writers="others"} 0',
    ]);
  });

  it('count pending changes until a sync is done', async () => {
    metrics.changed('slice');
    metrics.changed('slice');
    const name = 'kubeproxy_sync_proxy_rules_endpoint_changes';
    expect(await lines(`${name}_`)).toEqual([`${name}_pending 2`, `${name}_total 2`]);
    metrics.observe({ ...done, ok: true, healthy: true });
    expect(await lines(`${name}_`)).toEqual([`${name}_pending 0`, `${name}_total 2`]);
  });

  it('count no change as pending after which there was nothing to write', async () => {
    const idle = new Metrics(async () => [], { engine: { upToDate: true } as RunningEngine });
    onTestFinished(() => idle.close());
    idle.changed('slice');
    const name = 'kubeproxy_sync_proxy_rules_endpoint_changes';
    const text = (await idle.registry.metrics()).split('\n');
    expect(text.filter((line) => line.startsWith(name))).toEqual([
      `${name}_pending 0`,
      `${name}_total 1`,
    ]);
  });

  it('show silent watches, missing lists, and what is set aside', async () => {
    expect(await lines('fairlead_watch_silence_seconds')).toEqual([
      'fairlead_watch_silence_seconds{resource="services"} 2.5',
    ]);
    expect(await lines('fairlead_first_list_missing_seconds')).toEqual([
      'fairlead_first_list_missing_seconds{resource="services"} 0',
      'fairlead_first_list_missing_seconds{resource="endpointslices"} 0',
      'fairlead_first_list_missing_seconds{resource="nodes"} 7.5',
      'fairlead_first_list_missing_seconds{resource="servicecidrs"} 0',
    ]);
    const list = { resource: 'nodes', reason: undefined } as const;
    metrics.listed({ ...list, method: 'streaming', result: 'failed' });
    metrics.listed({ ...list, method: 'paged', result: 'complete' });
    expect(await lines('fairlead_lists_total')).toEqual([
      'fairlead_lists_total{resource="nodes",way="streaming",result="failed"} 1',
      'fairlead_lists_total{resource="nodes",way="paged",result="complete"} 1',
    ]);
    expect(await lines('fairlead_service_ports_set_aside')).toEqual([
      'fairlead_service_ports_set_aside{ip_family="IPv4"} 1',
    ]);
    expect(await lines('fairlead_services_over_limit')).toEqual(['fairlead_services_over_limit 3']);
  });
});

describe('metrics of ports without local endpoints', () => {
  const local = { internalTrafficPolicy: 'Local' } as const;
  const external = {
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    loadBalancerIPs: ['192.0.2.1'],
  } as const;
  const remote = slice({ '10.244.1.1': ready });
  const here = slice({ '10.244.1.1': readyLocal });

  it.each([
    ['policy Local inside, endpoints elsewhere', local, [remote], { internal: 1, external: 0 }],
    ['policy Local inside, endpoints here', local, [here], { internal: 0, external: 0 }],
    ['policy Local inside, no endpoints at all', local, [], { internal: 0, external: 0 }],
    ['policy Local outside, endpoints elsewhere', external, [remote], { internal: 0, external: 1 }],
    ['policy Local outside, no endpoints at all', external, [], { internal: 0, external: 0 }],
    ['policy Cluster', {}, [remote], { internal: 0, external: 0 }],
  ])('count %s', (_, fields, slices, count) => {
    const given = {
      ...fields,
      loadBalancerIPs: [...('loadBalancerIPs' in fields ? fields.loadBalancerIPs : [])],
    };
    const tracked = new TrackedForwardings('IPv4', { now: () => 0 });
    const [one] = resolve(service(given), slices, context);
    for (const next of [one, one, undefined, one]) tracked.setDesired(tracked.at(one!.key), next);
    expect(tracked.unreached).toEqual(count);
  });
});
