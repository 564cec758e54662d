/** What Prometheus sees of starting, changing and taking over, as opposed to proxying. */
import { Counter, type Registry } from 'prom-client';
import type { ModeName } from '../modes/mode.ts';
import type { DropReason } from '../source/kubernetes/event-series.ts';

/** What became of a configuration file that was read again. */
export type ReloadResult = 'applied' | 'unchanged' | 'invalid' | 'restart';

export class LifecycleMetrics {
  readonly #fallbacks: Counter;
  readonly #reloads: Counter;
  readonly #eventsDropped: Counter;

  constructor(registry: Registry) {
    const counter = (name: string, help: string, ...labelNames: string[]) =>
      new Counter({ name: `fairlead_${name}`, help, labelNames, registers: [registry] });
    this.#fallbacks = counter(
      'mode_fallbacks_total',
      'Modes that cannot run on this node and gave way to another',
      'from',
      'to',
    );
    this.#reloads = counter(
      'config_reloads_total',
      'Times that the configuration file was read again, by what became of it',
      'result',
    );
    this.#eventsDropped = counter(
      'cluster_events_dropped_total',
      'Events that the API server was not told of',
      'reason',
    );
  }

  /** A mode cannot run here, another is tried. */
  fellBack(from: ModeName, to: ModeName): void {
    this.#fallbacks.inc({ from, to });
  }

  reloaded(result: ReloadResult): void {
    this.#reloads.inc({ result });
  }

  eventDropped(reason: DropReason): void {
    this.#eventsDropped.inc({ reason });
  }
}
