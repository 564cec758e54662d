/** What the two servers answer (behaviour document 10.1 and 10.4). */
import type { Config } from '../config/config.ts';
import type { ModeName } from '../modes/mode.ts';
import type { ProxyHealth } from './health.ts';
import type { Metrics } from './metrics.ts';
import { jsonHeaders, type Reply, type Routes, textHeaders } from './server.ts';

/** For load balancers and the kubelet; port 10256 unless configured otherwise. */
export function healthRoutes(health: ProxyHealth, metrics: Metrics): Routes {
  const counted = (probe: 'healthz' | 'livez', reply: Reply): Reply => {
    metrics.probed(probe, reply.status);
    return reply;
  };
  return {
    '/healthz': () => counted('healthz', health.healthz()),
    '/livez': () => counted('livez', health.livez()),
  };
}

/** For Prometheus and people; port 10249 unless configured otherwise. */
export function metricsRoutes(
  config: () => Config,
  mode: () => ModeName,
  { registry }: Metrics,
): Routes {
  // This /healthz says that the process answers, nothing about the proxy.
  const ping: Reply = { status: 200, headers: textHeaders, body: 'ok' };
  const configz = (): string => JSON.stringify({ 'kubeproxy.config.k8s.io': config().document });
  return {
    '/metrics': async () => ({
      status: 200,
      headers: { 'Content-Type': registry.contentType },
      body: await registry.metrics(),
    }),
    '/healthz': () => ping,
    '/healthz/ping': () => ping,
    '/proxyMode': () => ({ status: 200, headers: textHeaders, body: mode() }),
    '/configz': () => ({ status: 200, headers: jsonHeaders, body: configz() }),
  };
}
