/** Connections and refusals by Service, for Prometheus; only with --service-metrics. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Whom } from '../state/frontends-by-service.ts';
import type { ServiceCounters, ServiceTraffic } from './service-counters.ts';

/** Service ports with their own series: Prometheus keeps each for hours, from each node. */
export const servicePortsMax = 10_000;

/** Service ports with three series of outcomes: to print a series costs the main thread 10 µs. */
const outcomePortsMax = 1000;

/** Endpoints with series of their own: they come and go, and each would stay for hours. */
const failingSeriesMax = 100;

const outcomes = ['tried', 'answered', 'reset'] as const;

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
  new Counter({
    name: 'fairlead_service_outcomes_total',
    help:
      'What became of connections that were sent to endpoints of a Service port: tried, and of ' +
      'those answered (accepted) and reset (refused); the rest had no answer. Mode nftables counts ' +
      `TCP and UDP, and the first ${outcomePortsMax} Service ports have series; see --service-metrics`,
    labelNames: [...labelNames, 'outcome'],
    registers,
    async collect() {
      this.reset();
      const followed = (await shown()).filter((one) => one.outcomes.tried > 0);
      for (const one of followed.slice(0, outcomePortsMax)) {
        for (const outcome of outcomes) {
          this.inc({ ...labelsOf(one), outcome }, one.outcomes[outcome]);
        }
      }
    },
  });
  new Gauge({
    name: 'fairlead_endpoint_failed_connections',
    help:
      'Connections to an endpoint since it was last seen to accept one, where these are five or ' +
      `more; the ${failingSeriesMax} endpoints with the most; see --service-metrics`,
    labelNames: [...labelNames, 'endpoint'],
    registers,
    async collect() {
      this.reset();
      const failing = (await counters.read())?.failing ?? [];
      for (const one of failing.slice(0, failingSeriesMax)) {
        this.set({ ...labelsOf(one), endpoint: one.endpoint }, one.failed);
      }
    },
  });
  new Gauge({
    name: 'fairlead_endpoints_failing',
    help: 'Endpoints that accepted none of their last five connections or more, all of them',
    registers,
    async collect() {
      this.set((await counters.read())?.failing.length ?? 0);
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
