/** Metrics of requests to the API server, with client-go's names. */
import { Counter, Histogram, type Registry } from 'prom-client';
import type { Exchange } from '../source/kubernetes/client.ts';

const buckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];

export class RequestMetrics {
  readonly #total: Counter;
  readonly #duration: Histogram;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#total = new Counter({
      name: 'rest_client_requests_total',
      help: '[ALPHA] Requests to the API server by status, method and host',
      labelNames: ['code', 'method', 'host'],
      registers,
    });
    this.#duration = new Histogram({
      name: 'rest_client_request_duration_seconds',
      help: '[ALPHA] Time until the answer of the API server began',
      labelNames: ['verb', 'host'],
      buckets,
      registers,
    });
  }

  observe({ method, host, status, durationMs }: Exchange): void {
    this.#total.inc({ code: status === undefined ? '<error>' : String(status), method, host });
    this.#duration.observe({ verb: method, host }, durationMs / 1000);
  }
}
