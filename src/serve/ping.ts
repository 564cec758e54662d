/**
 * The metrics server's own /healthz, which reports that the process answers and nothing about the
 * proxy, and /metrics/slis, which counts its answers (behaviour document 10.4).
 */
import { Counter, Gauge, Registry } from 'prom-client';
import { exposition } from './exposition.ts';
import { type Asked, type Reply, textHeaders } from './reply.ts';

const check = { name: 'ping', type: 'healthz' } as const;

export class Ping {
  readonly registry = new Registry();
  readonly #last: Gauge;
  readonly #total: Counter;

  constructor() {
    const registers = [this.registry];
    this.#last = new Gauge({
      name: 'kubernetes_healthcheck',
      help: '[STABLE] Whether a health check was good when it was last asked for',
      labelNames: ['name', 'type'],
      registers,
    });
    this.#total = new Counter({
      name: 'kubernetes_healthchecks_total',
      help: '[STABLE] Times that a health check was asked for, by its result',
      labelNames: ['name', 'type', 'status'],
      registers,
    });
    const started = new Gauge({
      name: 'process_start_time_seconds',
      help: 'When the process started, in seconds since the epoch',
      registers,
    });
    started.set(Date.now() / 1000 - process.uptime());
  }

  /** `?verbose` lists checks, `?exclude=ping` leaves the only one out. */
  healthz({ query }: Asked): Reply {
    const isExcluded = query.getAll('exclude').includes(check.name);
    if (!isExcluded) {
      this.#last.set(check, 1);
      this.#total.inc({ ...check, status: 'success' });
    }
    if (!query.has('verbose')) return { status: 200, headers: textHeaders, body: 'ok' };
    const line = `[+]${check.name} ${isExcluded ? 'excluded: ok' : 'ok'}`;
    return { status: 200, headers: textHeaders, body: `${line}\nhealthz check passed\n` };
  }

  async slis(asked: Asked): Promise<Reply> {
    if (asked.method === 'DELETE') {
      this.#last.reset();
      this.#total.reset();
      return { status: 200, headers: textHeaders, body: 'metrics reset\n' };
    }
    return exposition(this.registry, asked);
  }
}
