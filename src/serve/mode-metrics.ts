/**
 * Metrics that kube-proxy has in some of its modes only (behaviour document 10.3). Only those of
 * the mode that runs are exposed.
 */
import { Counter, Gauge, Histogram, type Metric, type Registry } from 'prom-client';
import { counterNames } from '../kernel/acct.ts';
import type { ModeFacts, ModeMetric } from '../modes/mode.ts';
import type { FamilyEvent } from '../sync/events.ts';
import { exponential } from './buckets.ts';
import { nfacctMetric, type ReadCounters } from './nfacct-metrics.ts';

type Done = FamilyEvent & { kind: 'done' };
type Failed = FamilyEvent & { kind: 'failed' };

const names = {
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

export class ModeMetrics {
  readonly #registry: Registry;
  readonly #metrics: ReturnType<typeof makeMetrics>;
  #exposed: readonly ModeMetric[] = [];

  constructor(registry: Registry, counters: ReadCounters) {
    this.#registry = registry;
    this.#metrics = makeMetrics(counters);
  }

  running({ metrics }: ModeFacts): void {
    if (metrics === this.#exposed) return;
    for (const name of this.#exposed) this.#registry.removeSingleMetric(names[name]);
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
function makeMetrics(counters: ReadCounters) {
  const described = (name: ModeMetric, help: string) => ({
    name: names[name],
    help: `[ALPHA] ${help}`,
    labelNames: ['ip_family'],
    registers: [],
  });
  const counter = (name: ModeMetric, help: string) => new Counter(described(name, help));
  const nfacct = (name: keyof typeof counterNames, help: string) => {
    return nfacctMetric(
      { name: names[name], help: `[ALPHA] ${help}` },
      counterNames[name],
      counters,
    );
  };
  const gauge = (name: ModeMetric, help: string) =>
    new Gauge({ ...described(name, help), labelNames: ['table', 'ip_family'] });
  const histogram = (name: ModeMetric, help: string) =>
    new Histogram({ ...described(name, help), buckets: exponential });
  return {
    fullSync: histogram(
      'fullSync',
      'Duration of a sync that reads the kernel and repairs the difference',
    ),
    partialSync: histogram('partialSync', 'Duration of a sync that writes what changed'),
    nftablesFailures: counter('nftablesFailures', 'Failed syncs'),
    nftablesCleanupFailures: counter(
      'nftablesCleanupFailures',
      'Deletions of unused objects that the kernel refused',
    ),
    restoreFailures: counter('restoreFailures', 'Failed syncs'),
    partialRestoreFailures: counter(
      'partialRestoreFailures',
      'Failed syncs that were to write what changed',
    ),
    invalidDropped: nfacct('invalidDropped', 'Packets dropped that are of no connection'),
    localhostAccepted: nfacct(
      'localhostAccepted',
      'Packets to node ports on loopback addresses that were accepted',
    ),
    iptablesRules: gauge('iptablesRules', 'Rules of ours, without jumps from built-in chains'),
    iptablesRulesLast: gauge('iptablesRulesLast', 'Rules that the last sync wrote'),
    iptablesSyncs: counter('iptablesSyncs', 'Syncs of mode iptables that succeeded'),
    ipvsSyncs: counter('ipvsSyncs', 'Syncs of mode ipvs that succeeded'),
  };
}
