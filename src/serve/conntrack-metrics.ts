/** What Prometheus sees of conntrack entries; names as kube-proxy's (behaviour document 10.3). */
import { Counter, Histogram, type Registry } from 'prom-client';
import type { ConntrackEvent } from '../conntrack/events.ts';
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
