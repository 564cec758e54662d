/** The routes of the two servers (behaviour document 10.1 and 10.4). */
import type { Config } from '../config/config.ts';
import type { ModeName } from '../modes/mode.ts';
import { exposition } from './exposition.ts';
import type { ProxyHealth } from './health.ts';
import type { Metrics } from './metrics.ts';
import { Ping } from './ping.ts';
import { jsonHeaders, type Reply, type Route, type Routes, textHeaders } from './server.ts';
import { flagz, type Page, servePage, statusz } from './zpages.ts';

/** For load balancers and the kubelet; port 10256 unless configured otherwise. */
export function healthRoutes(health: ProxyHealth, metrics: Metrics): Routes {
  const counted = (probe: 'healthz' | 'livez', reply: Reply): Reply => {
    metrics.probed(probe, reply.status);
    return reply;
  };
  return {
    '/healthz': async () => {
      await health.firstWord();
      return counted('healthz', health.healthz());
    },
    '/livez': () => counted('livez', health.livez()),
    '/readyz': () => health.readyz(),
  };
}

/** For Prometheus and people; port 10249 unless configured otherwise. */
export function metricsRoutes(
  config: () => Config,
  mode: () => ModeName,
  { registry }: Metrics,
): Routes {
  const configz = (): string => JSON.stringify({ 'kubeproxy.config.k8s.io': config().document });
  const ping = new Ping();
  const healthz: Route = (asked) => ping.healthz(asked);
  const routes: Routes = {
    '/metrics': (asked) => exposition(registry, asked),
    '/metrics/slis': (asked) => ping.slis(asked),
    '/healthz': healthz,
    '/healthz/ping': healthz,
    '/proxyMode': () => ({ status: 200, headers: textHeaders, body: mode() }),
    '/configz': () => ({ status: 200, headers: jsonHeaders, body: configz() }),
  };
  return { ...routes, ...pageRoutes(config, routes) };
}

/** Gates can't change while running. */
function pageRoutes(config: () => Config, others: Routes): Routes {
  const startedMs = Date.now() - process.uptime() * 1000;
  const { ComponentFlagz, ComponentStatusz } = config().featureGates;
  const paths = [...Object.keys(others), ...(ComponentFlagz ? ['/flagz'] : [])];
  const listed = [...new Set(paths.map((path) => `/${path.split('/')[1]}`))].sort();
  const page = (): Page => {
    const { kubernetesVersion } = config();
    return statusz({ startedMs, nowMs: Date.now(), kubernetesVersion, paths: listed });
  };
  return {
    ...(ComponentFlagz
      ? { '/flagz': ({ accept }) => servePage(flagz(config().flags), accept) }
      : {}),
    ...(ComponentStatusz ? { '/statusz': ({ accept }) => servePage(page(), accept) } : {}),
  };
}
