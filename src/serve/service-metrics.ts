/** Connections and refusals by Service, for Prometheus; only with --service-metrics. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Whom } from '../state/frontends-by-service.ts';
import type { ServiceCounters, ServiceTraffic } from './service-counters.ts';

/** Service ports with their own series: Prometheus keeps each for hours, from each node. */
export const servicePortsMax = 10_000;

const labelNames = ['ip_family', 'namespace', 'service', 'port', 'protocol'];

export function serviceMetrics(registry: Registry, counters: Pick<ServiceCounters, 'read'>): void {
  const registers = [registry];
  const shown = async (): Promise<readonly ServiceTraffic[]> =>
    ((await counters.read())?.services ?? []).slice(0, servicePortsMax);
  new Counter({
    name: 'fairlead_service_connections_total',
    help:
      'Connections that clients opened to a Service port, whether or not it had endpoints; ' +
      'see --service-metrics',
    labelNames,
    registers,
    async collect() {
      this.reset();
      for (const one of await shown()) {
        if (one.connections > 0) this.inc(labelsOf(one), one.connections);
      }
    },
  });
  new Counter({
    name: 'fairlead_service_refusals_total',
    help:
      'Packets to a Service that were refused, by reason; without a Service: to ClusterIPs that ' +
      'none has; see --service-metrics',
    labelNames: [...labelNames, 'reason'],
    registers,
    async collect() {
      this.reset();
      for (const one of await shown()) {
        for (const [reason, count] of one.refusals) this.inc({ ...labelsOf(one), reason }, count);
      }
    },
  });
  new Gauge({
    name: 'fairlead_service_metrics_left_out',
    help: `Service ports with traffic that have no series, because ${servicePortsMax} others have`,
    registers,
    async collect() {
      const services = (await counters.read())?.services ?? [];
      this.set(Math.max(0, services.length - servicePortsMax));
    },
  });
}

function labelsOf({ family, namespace, service, port, protocol }: Whom): Record<string, string> {
  return { ip_family: family, namespace, service, port, protocol };
}
