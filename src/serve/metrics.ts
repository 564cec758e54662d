/** Metrics that events change. Those that are read when Prometheus asks are in collectors.ts. */
import { type Metric, Registry } from 'prom-client';
import type { AgentEvent, ConnectTimeEvent } from '../connect-time/maps/events.ts';
import type { ConntrackEvent } from '../conntrack/events.ts';
import { counterNames } from '../kernel/acct.ts';
import { loadAddon, type TurnMeter } from '../kernel/addon.ts';
import type { ModeFacts, ModeMetric } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import type { ClientEvent } from '../source/kubernetes/client.ts';
import type { ListAttempt } from '../source/source.ts';
import type { Change } from '../state/change.ts';
import type { FamilyEvent, FilterEvent } from '../sync/events.ts';
import type { AgentState } from './ask/agent-state.ts';
import {
  eventLoopMetrics,
  namedCounterMetric,
  processMetrics,
  type ReadCounters,
} from './collectors.ts';
import type { SharedMemory } from './http/shared-memory.ts';
import { type MetricName, type MetricOf, metric, readMetric } from './metric-table.ts';

/** Changes that kube-proxy counts. */
const countedAs: { readonly [K in Change['kind']]?: 'service' | 'endpoint' } = {
  service: 'service',
  'service-gone': 'service',
  'service-unserved': 'service',
  slice: 'endpoint',
  'slice-unused': 'endpoint',
  'slice-gone': 'endpoint',
};

/** This many events wait until metrics are read: one by one they would take ten times as long. */
const waitingMax = 64;

/** Brings metrics up to date when they are read. */
class CatchingUp extends Registry {
  readonly #catchUp: () => void;

  constructor(catchUp: () => void) {
    super();
    this.#catchUp = catchUp;
  }

  override metrics(): Promise<string> {
    this.#catchUp();
    return super.metrics();
  }
}

export class Metrics {
  readonly registry: Registry = new CatchingUp(() => this.#catchUp());
  readonly lifecycle = lifecycleMetrics(this.registry);
  readonly conntrack = conntrackMetrics(this.registry);
  readonly #turns: TurnMeter;
  readonly #own: ReturnType<typeof syncMetrics>;
  readonly #modes: ModeMetrics;
  /** When the client certificate of the credential plugin expires. */
  #pluginNotAfterMs: number | undefined;
  /** Events of syncs that metrics do not have yet, and `Date.now` of each. */
  #waiting: { readonly event: AgentEvent; readonly nowMs: number }[] = [];
  /** Changes since the last sync, and since metrics were brought up to date. */
  readonly #changes = {
    service: { pending: 0, added: 0 },
    endpoint: { pending: 0, added: 0 },
  };

  readonly #agent: Pick<AgentState, 'engine'>;

  /** `counters`: named counters, read while mode iptables runs. */
  constructor(counters: ReadCounters, agent: Pick<AgentState, 'engine'> = { engine: undefined }) {
    const { registry } = this;
    this.#agent = agent;
    processMetrics(registry);
    this.#own = syncMetrics(registry, () => this.#countProbes());
    this.#modes = new ModeMetrics(registry, counters);
    this.#turns = new (loadAddon().TurnMeter)();
    eventLoopMetrics(registry, this.#turns);
    readMetric('rest_client_exec_plugin_ttl_seconds', registry, () => {
      return ((this.#pluginNotAfterMs ?? Number.POSITIVE_INFINITY) - Date.now()) / 1000;
    });
  }

  /** This mode handles the traffic from now on: metrics of other modes are not exposed any more. */
  running(mode: ModeFacts): void {
    this.#catchUp();
    this.#modes.running(mode);
  }

  /** What the client of the API server reports. */
  requested(event: ClientEvent): void {
    const own = this.#own;
    switch (event.kind) {
      case 'exchange': {
        const { durationMs, host, method, sentBytes, status } = event;
        const code = status === undefined ? '<error>' : String(status);
        own.requests.inc({ code, method, host });
        own.requestDuration.observe({ verb: method, host }, durationMs / 1000);
        if (sentBytes !== undefined) own.requestSize.observe({ verb: method, host }, sentBytes);
        return;
      }
      case 'received':
        own.responseSize.observe({ verb: event.method, host: event.host }, event.bytes);
        return;
      case 'plugin-call':
        own.pluginCalls.inc({ code: String(event.code), call_status: event.status });
        return;
      case 'plugin-certificate': {
        const { notAfterMs, replacedAgeMs } = event;
        this.#pluginNotAfterMs = notAfterMs;
        if (replacedAgeMs !== undefined) own.pluginRotation.observe({}, replacedAgeMs / 1000);
        return;
      }
    }
  }

  listed({ resource, method, result }: ListAttempt): void {
    this.#own.lists.inc({ resource, way: method, result });
  }

  /** A socket for a node port on the loopback address could not be opened. */
  localhostRefused(family: Family): void {
    this.#own.localhostFailures.inc({ ip_family: family });
  }

  /** The source delivered a change; kube-proxy counts those of Services and EndpointSlices. */
  changed(kind: Change['kind']): void {
    const counted = countedAs[kind];
    if (counted === undefined) return;
    this.#changes[counted].pending += 1;
    this.#changes[counted].added += 1;
  }

  /** Has the number of answers of the health server since the last call. */
  probes: Pick<SharedMemory, 'takeCounts'> | undefined;

  observe(event: AgentEvent): void {
    if (event.kind === 'done') for (const one of Object.values(this.#changes)) one.pending = 0;
    this.#waiting.push({ event, nowMs: Date.now() });
    if (this.#waiting.length === waitingMax) this.#catchUp();
  }

  #catchUp(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { event, nowMs } of waiting) {
      if ('family' in event) this.#observeFamily(event, nowMs);
      else this.#own.serviceProblems.inc({ kind: event.kind });
    }
    for (const what of ['service', 'endpoint'] as const) {
      const { pending, total } = this.#own.changes[what];
      // No sync follows a change after which there is nothing to write.
      if (this.#agent.engine?.upToDate === true) this.#changes[what].pending = 0;
      pending.set(this.#changes[what].pending);
      total.inc(this.#changes[what].added);
      this.#changes[what].added = 0;
    }
  }

  /** Called when metrics are read: the HTTP thread counts its answers by itself. */
  #countProbes(): void {
    for (const { count, counted } of this.probes?.takeCounts() ?? []) {
      if (count > 0) this.#own[counted.probe].inc({ code: String(counted.status) }, count);
    }
  }

  /** Stops measuring the event loop. */
  close(): void {
    this.#turns.close();
  }

  #observeFamily(event: FamilyEvent | FilterEvent | ConnectTimeEvent, nowMs: number): void {
    const label = { ip_family: event.family };
    const own = this.#own;
    switch (event.kind) {
      case 'queued':
        own.lastQueued.set(label, nowMs / 1000);
        return;
      case 'committed':
        this.#observeCommit(event, nowMs);
        return;
      case 'done':
        this.#observeDone(event, nowMs);
        return;
      case 'failed':
        this.#modes.failed(event);
        return;
      case 'filter-rules':
        if (event.of.kind === 'drift' || event.of.kind === 'failed') {
          this.#observeFamily(event.of, nowMs);
        }
        return;
      case 'connect-time':
        // Syncs and audits are those of the rules.
        if (event.of.kind === 'drift' || event.of.kind === 'miscounted') {
          this.#observeFamily(event.of, nowMs);
        }
        return;
      case 'drift':
        if (event.purpose === 'start') return;
        for (const kind of ['missing', 'wrong', 'unwanted'] as const) {
          own.drift.inc({ ...label, kind, writers: event.writers }, event.drift[kind]);
        }
        return;
      case 'miscounted':
        own.miscounts.inc(label, event.miscounts.length);
        return;
      case 'lease-late':
      case 'lease-ended':
        own.leases.inc(label);
        return;
      case 'audited':
        own.audit.observe(label, event.durationMs / 1000);
        own.lastAudit.set(label, nowMs / 1000);
        return;
      case 'quarantined':
      case 'restored':
        return;
    }
  }

  #observeCommit(event: FamilyEvent & { kind: 'committed' }, nowMs: number): void {
    const label = { ip_family: event.family };
    const own = this.#own;
    own.batchBytes.observe(label, event.bytes);
    own.writes.inc({ ...label, purpose: event.purpose }, event.writes);
    for (const timeMs of event.triggerTimesMs) {
      own.programming.observe(label, Math.max(0, nowMs - timeMs) / 1000);
    }
    if (event.stages === undefined) return;
    const { receivedMs, resolvedMs, encodedMs, committedMs } = event.stages;
    const stages = {
      resolve: resolvedMs - receivedMs,
      encode: encodedMs - resolvedMs,
      commit: committedMs - encodedMs,
      total: committedMs - receivedMs,
    };
    for (const [stage, ms] of Object.entries(stages)) {
      own.stages.observe({ ...label, stage }, ms / 1000);
    }
  }

  #observeDone(event: FamilyEvent & { kind: 'done' }, nowMs: number): void {
    const label = { ip_family: event.family };
    const seconds = event.durationMs / 1000;
    this.#own.sync.observe(label, seconds);
    this.#own.syncWork.inc(label, event.workMs / 1000);
    this.#modes.done(event);
    if (event.ok) this.#own.lastSync.set(label, nowMs / 1000);
  }
}

/** Makes metrics that need no more than their name. */
function maker(registry: Registry) {
  return <N extends MetricName>(name: N): MetricOf<N> => metric(name, registry);
}

function syncMetrics(registry: Registry, countProbes: () => void) {
  const make = maker(registry);
  return {
    sync: make('kubeproxy_sync_proxy_rules_duration_seconds'),
    syncWork: make('fairlead_sync_work_seconds_total'),
    programming: make('kubeproxy_network_programming_duration_seconds'),
    lastSync: make('kubeproxy_sync_proxy_rules_last_timestamp_seconds'),
    lastQueued: make('kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds'),
    healthz: metric('kubeproxy_proxy_healthz_total', registry, countProbes),
    livez: metric('kubeproxy_proxy_livez_total', registry, countProbes),
    changes: {
      service: {
        pending: make('kubeproxy_sync_proxy_rules_service_changes_pending'),
        total: make('kubeproxy_sync_proxy_rules_service_changes_total'),
      },
      endpoint: {
        pending: make('kubeproxy_sync_proxy_rules_endpoint_changes_pending'),
        total: make('kubeproxy_sync_proxy_rules_endpoint_changes_total'),
      },
    },
    drift: make('fairlead_drift_repaired_total'),
    miscounts: make('fairlead_miscounts_total'),
    leases: make('fairlead_connect_time_lease_failures_total'),
    audit: make('fairlead_audit_duration_seconds'),
    lastAudit: make('fairlead_audit_last_timestamp_seconds'),
    batchBytes: make('fairlead_batch_bytes'),
    writes: make('fairlead_kernel_writes_total'),
    stages: make('fairlead_stage_duration_seconds'),
    serviceProblems: make('fairlead_service_problems_total'),
    lists: make('fairlead_lists_total'),
    localhostFailures: make(
      'kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total',
    ),
    requests: make('rest_client_requests_total'),
    requestDuration: make('rest_client_request_duration_seconds'),
    requestSize: make('rest_client_request_size_bytes'),
    responseSize: make('rest_client_response_size_bytes'),
    pluginCalls: make('rest_client_exec_plugin_call_total'),
    pluginRotation: make('rest_client_exec_plugin_certificate_rotation_age'),
  };
}

/** The result of reading a configuration file again. */
export type ReloadResult = 'applied' | 'unchanged' | 'invalid' | 'restart';

/** Starting, changing and taking over. */
function lifecycleMetrics(registry: Registry) {
  const make = maker(registry);
  return {
    /** A mode cannot run here, so another one is tried. */
    fallbacks: make('fairlead_mode_fallbacks_total'),
    reloads: make('fairlead_config_reloads_total'),
    eventsDropped: make('fairlead_cluster_events_dropped_total'),
    takenOver: make('fairlead_takeover_removed_total'),
    reportsLeftOut: make('fairlead_reports_left_out_total'),
    foreignTables: make('fairlead_foreign_tables_replaced_total'),
  };
}

export type LifecycleMetrics = ReturnType<typeof lifecycleMetrics>;

export function conntrackMetrics(registry: Registry): (event: ConntrackEvent) => void {
  const duration = metric('kubeproxy_conntrack_reconciler_sync_duration_seconds', registry);
  const deleted = metric('kubeproxy_conntrack_reconciler_deleted_entries_total', registry);
  const failures = metric('fairlead_conntrack_failures_total', registry);
  const old = metric('fairlead_old_connections_ended_total', registry);
  return (event) => {
    const label = { ip_family: event.family };
    if (event.kind === 'failed') {
      failures.inc(label);
      return;
    }
    duration.observe(label, event.durationMs / 1000);
    (event.isForAge ? old : deleted).inc(label, event.deleted.length);
  };
}

type Done = FamilyEvent & { kind: 'done' };
type Failed = FamilyEvent & { kind: 'failed' };

/** Metrics that kube-proxy has in some of its modes only (behaviour document 10.3). */
const modeMetrics = {
  fullSync: 'kubeproxy_sync_full_proxy_rules_duration_seconds',
  partialSync: 'kubeproxy_sync_partial_proxy_rules_duration_seconds',
  nftablesFailures: 'kubeproxy_sync_proxy_rules_nftables_sync_failures_total',
  nftablesCleanupFailures: 'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total',
  restoreFailures: 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
  partialRestoreFailures: 'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total',
  iptablesRules: 'kubeproxy_sync_proxy_rules_iptables_total',
  iptablesRulesLast: 'kubeproxy_sync_proxy_rules_iptables_last',
  invalidDropped: 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total',
  localhostAccepted: 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
  // Requested by users; not in upstream.
  iptablesSyncs: 'kubeproxy_iptables_sync_total',
  ipvsSyncs: 'kubeproxy_ipvs_sync_total',
} as const satisfies Record<ModeMetric, string>;

/** Exposes only the metrics of the mode that runs. */
class ModeMetrics {
  readonly #registry: Registry;
  readonly #metrics: ReturnType<typeof makeModeMetrics>;
  #exposed: readonly ModeMetric[] = [];

  constructor(registry: Registry, counters: ReadCounters) {
    this.#registry = registry;
    this.#metrics = makeModeMetrics(counters);
  }

  running({ metrics }: ModeFacts): void {
    if (metrics === this.#exposed) return;
    for (const name of this.#exposed) this.#registry.removeSingleMetric(modeMetrics[name]);
    for (const name of metrics) {
      const metric: Metric = this.#metrics[name];
      metric.reset();
      this.#registry.registerMetric(metric);
    }
    this.#exposed = metrics;
  }

  done({ family, ok, purpose, durationMs, rules = [] }: Done): void {
    const label = { ip_family: family };
    const { fullSync, partialSync, iptablesSyncs, ipvsSyncs } = this.#metrics;
    for (const { table, total, written } of rules) {
      this.#metrics.iptablesRules.set({ table, ...label }, total);
      this.#metrics.iptablesRulesLast.set({ table, ...label }, written);
    }
    (purpose === 'changes' ? partialSync : fullSync).observe(label, durationMs / 1000);
    if (!ok) return;
    iptablesSyncs.inc(label);
    ipvsSyncs.inc(label);
  }

  failed({ family, purpose }: Failed): void {
    const label = { ip_family: family };
    const { nftablesFailures, nftablesCleanupFailures } = this.#metrics;
    // An element may have expired before its deletion, which is not a failure.
    if (purpose === 'sweep') return;
    if (purpose === 'deferred') nftablesCleanupFailures.inc(label);
    else {
      nftablesFailures.inc(label);
      this.#metrics.restoreFailures.inc(label);
      if (purpose === 'changes') this.#metrics.partialRestoreFailures.inc(label);
    }
  }
}

/** No metric is exposed yet. */
function makeModeMetrics(counters: ReadCounters) {
  const made = Object.entries(modeMetrics).map(([name, own]) => [name, metric(own, undefined)]);
  const plain: { readonly [M in ModeMetric]: MetricOf<(typeof modeMetrics)[M]> } =
    Object.fromEntries(made);
  return {
    ...plain,
    invalidDropped: namedCounterMetric(
      modeMetrics.invalidDropped,
      counterNames.invalidDropped,
      counters,
    ),
    localhostAccepted: namedCounterMetric(
      modeMetrics.localhostAccepted,
      counterNames.localhostAccepted,
      counters,
    ),
  };
}
