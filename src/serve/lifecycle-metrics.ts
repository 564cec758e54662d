/** What Prometheus sees of starting, changing and taking over, as opposed to proxying. */
import { Counter, type Registry } from 'prom-client';
import type { ModeName } from '../modes/mode.ts';

export class LifecycleMetrics {
  readonly #fallbacks: Counter;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#fallbacks = new Counter({
      name: 'fairlead_mode_fallbacks_total',
      help: 'Modes that cannot run on this node and gave way to another',
      labelNames: ['from', 'to'],
      registers,
    });
  }

  /** A mode cannot run here, another is tried. */
  fellBack(from: ModeName, to: ModeName): void {
    this.#fallbacks.inc({ from, to });
  }
}
