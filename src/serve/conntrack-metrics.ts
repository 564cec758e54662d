/** Metrics of conntrack entries, with kube-proxy's names (behaviour document 10.3). */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ConntrackEvent } from '../conntrack/events.ts';
import { conntrackLosses, conntrackUse } from '../host/conntrack.ts';
import type { HostFiles } from '../host/files.ts';
import { exponential } from './buckets.ts';

export class ConntrackMetrics {
  readonly #duration: Histogram;
  readonly #deleted: Counter;
  readonly #failures: Counter;

  constructor(registry: Registry) {
    const shared = { labelNames: ['ip_family'], registers: [registry] };
    this.#duration = new Histogram({
      ...shared,
      name: 'kubeproxy_conntrack_reconciler_sync_duration_seconds',
      help: '[ALPHA] Time to find the conntrack entries that contradict Services, and delete them',
      buckets: exponential,
    });
    this.#deleted = new Counter({
      ...shared,
      name: 'kubeproxy_conntrack_reconciler_deleted_entries_total',
      help: '[ALPHA] Conntrack entries deleted because they contradicted Services',
    });
    this.#failures = new Counter({
      ...shared,
      name: 'fairlead_conntrack_failures_total',
      help: 'Attempts to read conntrack entries or to delete some that the kernel refused',
    });
  }

  observe(event: ConntrackEvent): void {
    const label = { ip_family: event.family };
    if (event.kind === 'failed') {
      this.#failures.inc(label);
      return;
    }
    this.#duration.observe(label, event.durationMs / 1000);
    this.#deleted.inc(label, event.deleted.length);
  }
}

/** The size of the table, and packets dropped because it was full; nothing without `host`. */
export function conntrackTableMetrics(registry: Registry, host: HostFiles | undefined): void {
  const registers = [registry];
  const gauge = (of: 'entries' | 'limit', help: string) =>
    new Gauge({
      name: `fairlead_conntrack_${of}`,
      help,
      registers,
      collect() {
        const use = host && conntrackUse(host);
        if (use === undefined) this.remove();
        else this.set(use[of]);
      },
    });
  gauge('entries', 'Connections that connection tracking holds');
  gauge('limit', 'The most connections that connection tracking holds (nf_conntrack_max)');
  new Counter({
    name: 'fairlead_conntrack_losses_total',
    help:
      'What connection tracking lost, since the machine started. dropped: packets for which it ' +
      'had no room; evicted: entries deleted early to make room; clashed: packets that lost a race',
    labelNames: ['kind'],
    registers,
    collect() {
      this.reset();
      const losses = host && conntrackLosses(host);
      if (losses === undefined) return;
      for (const [kind, count] of Object.entries(losses)) this.inc({ kind }, count);
    },
  });
}
