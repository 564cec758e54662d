/**
 * The metrics server's own /healthz, which reports that the process answers and nothing about the
 * proxy, and /metrics/slis, which counts its answers (behaviour document 10.4).
 */
import { Gauge, Registry } from 'prom-client';
import { exposition } from './exposition.ts';
import { metric } from './metric-table.ts';
import { type Asked, type Reply, textHeaders } from './reply.ts';

const check = { name: 'ping', type: 'healthz' } as const;

export class Ping {
  readonly registry = new Registry();
  readonly #last = metric('kubernetes_healthcheck', this.registry);
  readonly #total = metric('kubernetes_healthchecks_total', this.registry);

  constructor() {
    const started = new Gauge({
      name: 'process_start_time_seconds',
      help: 'When the process started, in seconds since the epoch',
      registers: [this.registry],
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
