/**
 * The metrics for Prometheus. kube-proxy's metrics have its names, labels, prefixes of help texts
 * and buckets (behaviour document 10.3), so that dashboards and alerts continue to work. Fairlead's
 * own begin with `fairlead_`.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { ownRelease, proxyGates, stageIn } from '../config/gates.ts';
import { loadAddon, type TurnMeter } from '../kernel/addon.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import type { Exchange } from '../source/kubernetes/client.ts';
import type { Condition, ServerVersion } from '../source/source.ts';
import type { Change, Resource } from '../state/change.ts';
import type { Forwarding } from '../state/types.ts';
import type { FamilyEvent, SyncEvent } from '../sync/events.ts';
import { exponential } from './buckets.ts';
import { ConntrackMetrics } from './conntrack-metrics.ts';
import type { Counted } from './http/shared-memory.ts';
import { LifecycleMetrics } from './lifecycle-metrics.ts';
import { LocalhostMetrics } from './localhost-metrics.ts';
import { ModeMetrics } from './mode-metrics.ts';
import type { ReadCounters } from './nfacct-metrics.ts';
import { buildMetrics, processMetrics } from './process-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';
import { SourceMetrics } from './source-metrics.ts';

/** Values that are read when Prometheus asks, and the feature gates, which never change. */
interface MetricsSources {
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly condition: (resource: Resource) => Condition;
  /** The version of the API server; undefined = not known. */
  readonly serverVersion: () => ServerVersion | undefined;
  /** The number of Services that exceed a limit. */
  readonly overLimit: () => number;
  /** Named counters, which are read while mode iptables runs. */
  readonly counters: ReadCounters;
  /** The number of sockets that listen for node ports on the loopback address. */
  readonly localhostListeners: (family: Family) => number;
  /** The served families, with desired Forwardings and the number in quarantine. */
  readonly families: () => Iterable<{
    readonly family: Family;
    readonly desired: ReadonlyMap<string, Forwarding>;
    readonly quarantined: Iterable<unknown>;
  }>;
}

const family = 'ip_family';

/** The 0 results from the way upstream merges its lists of buckets, and dashboards use it. */
const programmingBuckets = [
  0,
  0.25,
  0.5,
  ...steps(1, 59, 1),
  ...steps(60, 115, 5),
  ...steps(120, 300, 30),
];

function steps(from: number, to: number, by: number): number[] {
  return Array.from({ length: (to - from) / by + 1 }, (_, i) => from + i * by);
}

/** Changes that kube-proxy counts. */
const countedAs: { readonly [K in Change['kind']]?: 'service' | 'endpoint' } = {
  service: 'service',
  'service-gone': 'service',
  'service-unserved': 'service',
  slice: 'endpoint',
  'slice-unused': 'endpoint',
  'slice-gone': 'endpoint',
};

export class Metrics {
  readonly registry = new Registry();
  readonly lifecycle = new LifecycleMetrics(this.registry);
  readonly conntrack = new ConntrackMetrics(this.registry);
  readonly localhost: LocalhostMetrics;
  readonly source: SourceMetrics;
  readonly #turns: TurnMeter;
  readonly #kubeProxy: ReturnType<typeof kubeProxyMetrics>;
  readonly #own: ReturnType<typeof ownMetrics>;
  readonly #requests = new RequestMetrics(this.registry);
  readonly #modes: ModeMetrics;
  readonly #changes: Record<'service' | 'endpoint', { pending: Gauge; total: Counter }>;

  constructor(sources: MetricsSources) {
    const { registry } = this;
    processMetrics(registry);
    this.#kubeProxy = kubeProxyMetrics(registry, () => this.#countProbes());
    this.#own = ownMetrics(registry);
    this.source = new SourceMetrics(registry, sources.condition);
    this.localhost = new LocalhostMetrics(registry, sources);
    this.#modes = new ModeMetrics(registry, sources.counters);
    this.#changes = {
      service: changeMetrics(registry, 'service'),
      endpoint: changeMetrics(registry, 'endpoint'),
    };
    this.#turns = new (loadAddon().TurnMeter)();
    eventLoopMetrics(registry, this.#turns);
    stateMetrics(registry, sources);
    buildMetrics(registry, sources.serverVersion);
    gateMetrics(registry, sources.featureGates);
  }

  /** This mode handles the traffic from now on: metrics of other modes are not exposed any more. */
  running(mode: ModeFacts): void {
    this.#modes.running(mode);
  }

  /** An exchange with the API server is over. */
  requested(exchange: Exchange): void {
    this.#requests.observe(exchange);
  }

  /** The source delivered a change; kube-proxy counts those of Services and EndpointSlices. */
  changed(kind: Change['kind']): void {
    const counted = countedAs[kind];
    if (counted === undefined) return;
    const { pending, total } = this.#changes[counted];
    pending.inc();
    total.inc();
  }

  /** The number of answers of the health server since the last call. */
  probed: () => readonly { readonly counted: Counted; readonly count: number }[] = () => [];

  observe(event: SyncEvent): void {
    if ('family' in event) this.#observeFamily(event);
    else this.#own.serviceProblems.inc({ kind: event.kind });
  }

  /** Called when metrics are read: the HTTP thread counts its answers by itself. */
  #countProbes(): void {
    for (const { count, counted } of this.probed()) {
      if (count > 0) this.#kubeProxy[counted.probe].inc({ code: String(counted.status) }, count);
    }
  }

  /** Stops measuring the event loop. */
  close(): void {
    this.#turns.close();
  }

  #observeFamily(event: FamilyEvent): void {
    const label = { [family]: event.family };
    const nowMs = Date.now();
    const { kubeProxy, own } = { kubeProxy: this.#kubeProxy, own: this.#own };
    switch (event.kind) {
      case 'queued':
        kubeProxy.lastQueued.set(label, nowMs / 1000);
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
      case 'connect-time':
        // Syncs and audits are those of the rules.
        if (event.of.kind === 'drift' || event.of.kind === 'miscounted') {
          this.#observeFamily(event.of);
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
    const label = { [family]: event.family };
    const { kubeProxy, own } = { kubeProxy: this.#kubeProxy, own: this.#own };
    own.batchBytes.observe(label, event.bytes);
    own.writes.inc({ ...label, purpose: event.purpose }, event.writes);
    for (const timeMs of event.triggerTimesMs) {
      kubeProxy.programming.observe(label, Math.max(0, nowMs - timeMs) / 1000);
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
    const label = { [family]: event.family };
    const seconds = event.durationMs / 1000;
    this.#kubeProxy.sync.observe(label, seconds);
    this.#modes.done(event);
    for (const { pending } of Object.values(this.#changes)) pending.set(0);
    if (event.ok) this.#kubeProxy.lastSync.set(label, nowMs / 1000);
  }
}

function kubeProxyMetrics(registry: Registry, countProbes: () => void) {
  const registers = [registry];
  const named = (name: string, help: string) => ({
    name: `kubeproxy_${name}`,
    help: `[ALPHA] ${help}`,
    registers,
  });
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ ...named(name, help), labelNames: [family], buckets });
  const gauge = (name: string, help: string) =>
    new Gauge({ ...named(name, help), labelNames: [family] });
  const probes = (name: string, help: string) =>
    new Counter({ ...named(name, help), labelNames: ['code'], collect: countProbes });
  const rules = 'sync_proxy_rules';
  return {
    sync: histogram(`${rules}_duration_seconds`, 'Duration of a sync', exponential),
    programming: histogram(
      'network_programming_duration_seconds',
      'From the change of an endpoint in the cluster until the kernel has it',
      programmingBuckets,
    ),
    lastSync: gauge(`${rules}_last_timestamp_seconds`, 'When the last sync succeeded'),
    lastQueued: gauge(`${rules}_last_queued_timestamp_seconds`, 'When a sync was last asked for'),
    healthz: probes('proxy_healthz_total', 'Answers of /healthz by status'),
    livez: probes('proxy_livez_total', 'Answers of /livez by status'),
  };
}

function changeMetrics(registry: Registry, what: 'service' | 'endpoint') {
  const registers = [registry];
  const name = `kubeproxy_sync_proxy_rules_${what}_changes`;
  const subject = what === 'service' ? 'Services' : 'EndpointSlices';
  const pending = new Gauge({
    name: `${name}_pending`,
    help: `[ALPHA] Changes of ${subject} that no sync has taken yet`,
    registers,
  });
  const total = new Counter({
    name: `${name}_total`,
    help: `[ALPHA] Changes of ${subject}`,
    registers,
  });
  return { pending, total };
}

function ownMetrics(registry: Registry) {
  const registers = [registry];
  const labelled = (name: string, help: string, ...labels: string[]) => ({
    name: `fairlead_${name}`,
    help,
    labelNames: [family, ...labels],
    registers,
  });
  return {
    drift: new Counter(
      labelled(
        'drift_repaired_total',
        'Objects in the kernel that were not as written, by who else had written',
        'kind',
        'writers',
      ),
    ),
    miscounts: new Counter(
      labelled('miscounts_total', 'Sets and maps found with a wrong number of elements'),
    ),
    leases: new Counter(
      labelled(
        'connect_time_lease_failures_total',
        'Times that the lease of connect-time programs was not renewed when it was due',
      ),
    ),
    audit: new Histogram({
      ...labelled(
        'audit_duration_seconds',
        'Duration of audits, which compare all that the kernel holds',
      ),
      buckets: exponential,
    }),
    lastAudit: new Gauge(
      labelled('audit_last_timestamp_seconds', 'When all that the kernel holds was last compared'),
    ),
    batchBytes: new Histogram({
      ...labelled('batch_bytes', 'Size of the batches that the kernel took'),
      buckets: Array.from({ length: 9 }, (_, k) => 64 * 8 ** k),
    }),
    writes: new Counter(
      labelled('kernel_writes_total', 'Objects written to the kernel or deleted', 'purpose'),
    ),
    stages: new Histogram({
      ...labelled('stage_duration_seconds', 'Stages of the oldest change of a batch', 'stage'),
      buckets: [0.0001, 0.00025, 0.0005, ...exponential],
    }),
    serviceProblems: new Counter({
      name: 'fairlead_service_problems_total',
      help: 'Services that lost a frontend to another (conflict) or are not understood',
      labelNames: ['kind'],
      registers,
    }),
  };
}

/** 1 = enabled. Stages as upstream's: GA has an empty one. */
function gateMetrics(registry: Registry, gates: Readonly<Record<string, boolean>>): void {
  const gauge = new Gauge({
    name: 'kubernetes_feature_enabled',
    help: '[BETA] Whether a feature gate is enabled',
    labelNames: ['name', 'stage'],
    registers: [registry],
  });
  for (const [name, isEnabled] of Object.entries(gates)) {
    const gate = proxyGates[name];
    const stage = gate === undefined ? 'GA' : stageIn(gate, ownRelease).stage;
    gauge.set({ name, stage: stage === 'GA' ? '' : stage }, isEnabled ? 1 : 0);
  }
}

function eventLoopMetrics(registry: Registry, turns: TurnMeter): void {
  const gauge = new Gauge({
    name: 'fairlead_event_loop_delay_seconds',
    help: 'How long turns of the event loop took since the last scrape, without waiting',
    labelNames: ['percentile'],
    registers: [registry],
    collect: () => {
      const { p50, p99, longest } = turns.take();
      for (const [percentile, ms] of Object.entries({ 50: p50, 99: p99, 100: longest })) {
        gauge.set({ percentile }, ms / 1000);
      }
    },
  });
}

function stateMetrics(registry: Registry, { families, overLimit }: MetricsSources): void {
  const registers = [registry];
  const counts = (name: string, help: string, count: (of: FamilyOf) => number): void => {
    const gauge = new Gauge({
      name: `fairlead_${name}`,
      help,
      labelNames: [family],
      registers,
      collect: () => {
        for (const one of families()) gauge.set({ [family]: one.family }, count(one));
      },
    });
  };
  counts(
    'service_ports',
    'Ports of Services that are to be in force',
    ({ desired }) => desired.size,
  );
  counts(
    'service_ports_set_aside',
    'Ports of Services that the kernel refuses',
    ({ quarantined }) => {
      return [...quarantined].length;
    },
  );
  const over = new Gauge({
    name: 'fairlead_services_over_limit',
    help: 'Services that ask for more than one Service gets, and are served in part',
    registers,
    collect: () => {
      over.set(overLimit());
    },
  });
  const noLocal = new Gauge({
    name: 'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
    help: '[ALPHA] Ports of Services whose policy is Local and that have no endpoint here',
    labelNames: ['traffic_policy', family],
    registers,
    collect: () => {
      for (const { family: of, desired } of families()) {
        const { internal, external } = countNoLocal(desired.values());
        noLocal.set({ traffic_policy: 'internal', [family]: of }, internal);
        noLocal.set({ traffic_policy: 'external', [family]: of }, external);
      }
    },
  });
}

type FamilyOf = ReturnType<MetricsSources['families']> extends Iterable<infer T> ? T : never;

/** Ports with endpoints, of which traffic of policy Local can reach none. */
export function countNoLocal(desired: Iterable<Forwarding>): {
  internal: number;
  external: number;
} {
  const count = { internal: 0, external: 0 };
  for (const { frontends, local } of desired) {
    if (frontends.some(({ treatment }) => treatment === 'drop')) count.internal += 1;
    if (local.length > 0) continue;
    if (frontends.some(({ treatment }) => treatment === 'external-local')) count.external += 1;
  }
  return count;
}
