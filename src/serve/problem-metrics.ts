/** Whether the proxy is healthy and how many Services have problems, for Prometheus. */
import { Gauge, type Registry } from 'prom-client';
import type { Judgements } from './ask/problem.ts';

export interface ProblemSources extends Pick<Judgements, 'catchUp'> {
  /** The health that `fairlead status` shows. */
  healthy(): boolean;
  counts(): Judgements['counts'];
}

export function problemMetrics(registry: Registry, sources: ProblemSources): void {
  const registers = [registry];
  new Gauge({
    name: 'fairlead_healthy',
    help: '1 = fairlead status has no problem of the proxy to report, 0 = it has',
    registers,
    collect() {
      this.set(sources.healthy() ? 1 : 0);
    },
  });
  new Gauge({
    name: 'fairlead_services_unhealthy',
    help: 'Services that have problems on this node, as fairlead problems lists them',
    registers,
    async collect() {
      await sources.catchUp();
      this.set(sources.counts().services);
    },
  });
  new Gauge({
    name: 'fairlead_services_with_problems',
    help: 'Services that have problems on this node, by reason; a Service may have several',
    labelNames: ['reason'],
    registers,
    async collect() {
      await sources.catchUp();
      for (const [reason, count] of sources.counts().byReason) this.set({ reason }, count);
    },
  });
}
