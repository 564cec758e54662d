/** The routes of the metrics server (behaviour document 10.4). */
import type { Config } from '../config/config.ts';
import type { ModeName } from '../modes/mode.ts';
import { exposition } from './exposition.ts';
import type { Metrics } from './metrics.ts';
import { Ping } from './ping.ts';
import { jsonHeaders, type Route, type Routes, textHeaders } from './reply.ts';
import { flagz, type Page, servePage, statusz } from './zpages.ts';

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
