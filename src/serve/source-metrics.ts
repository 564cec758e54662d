/** Metrics of lists and watches. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Condition, ListAttempt } from '../source/source.ts';
import { type Resource, resources } from '../state/change.ts';

export class SourceMetrics {
  readonly #lists: Counter;

  constructor(registry: Registry, condition: (resource: Resource) => Condition) {
    const registers = [registry];
    const labelNames = ['resource'];
    const silence = new Gauge({
      name: 'fairlead_watch_silence_seconds',
      help: 'Time since the last word of each watch',
      labelNames,
      registers,
      collect: () => {
        for (const resource of resources) {
          const { silenceMs } = condition(resource);
          if (silenceMs !== undefined) silence.set({ resource }, silenceMs / 1000);
        }
      },
    });
    const missing = new Gauge({
      name: 'fairlead_first_list_missing_seconds',
      help: 'For how long the first list has been asked for in vain; 0 once it is complete',
      labelNames,
      registers,
      collect: () => {
        for (const resource of resources) {
          missing.set({ resource }, (condition(resource).missingMs ?? 0) / 1000);
        }
      },
    });
    this.#lists = new Counter({
      name: 'fairlead_lists_total',
      help: 'Lists asked of the API server, as streams of events or in pages',
      labelNames: ['resource', 'way', 'result'],
      registers,
    });
  }

  listed({ resource, way, result }: ListAttempt): void {
    this.#lists.inc({ resource, way, result });
  }
}
