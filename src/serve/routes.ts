/** The routes of the metrics server (behaviour document 10.4). */

import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Gauge, Registry } from 'prom-client';
import type { AgentState } from './ask/agent-state.ts';
import { metric } from './metric-table.ts';
import type { Metrics } from './metrics.ts';
import {
  type Asked,
  acceptsGzip,
  jsonHeaders,
  type Reply,
  type Route,
  type Routes,
  textReply,
} from './reply.ts';
import { flagz, type Page, servePage, statusz } from './zpages.ts';

/** For Prometheus and people; port 10249 unless configured otherwise. */
export function metricsRoutes(
  agent: Pick<AgentState, 'config' | 'mode'>,
  { registry }: Metrics,
): Routes {
  const configz = (): string =>
    JSON.stringify({ 'kubeproxy.config.k8s.io': agent.config.document });
  const ping = new Ping();
  const healthz: Route = (asked) => ping.healthz(asked);
  const routes: Routes = {
    '/metrics': (asked) => exposition(registry, asked),
    '/metrics/slis': (asked) => ping.slis(asked),
    '/healthz': healthz,
    '/healthz/ping': healthz,
    '/proxyMode': () => textReply(200, agent.mode.name),
    '/configz': () => ({ status: 200, headers: jsonHeaders, body: configz() }),
  };
  return { ...routes, ...pageRoutes(agent, routes) };
}

/** Gates can't change while running. */
function pageRoutes(agent: Pick<AgentState, 'config'>, others: Routes): Routes {
  const startedMs = Date.now() - process.uptime() * 1000;
  const { ComponentFlagz, ComponentStatusz } = agent.config.featureGates;
  const paths = [...Object.keys(others), ...(ComponentFlagz ? ['/flagz'] : [])];
  const listed = [...new Set(paths.map((path) => `/${path.split('/')[1]}`))].sort();
  const page = (): Page => {
    const { kubernetesVersion } = agent.config;
    return statusz({ startedMs, nowMs: Date.now(), kubernetesVersion, paths: listed });
  };
  return {
    ...(ComponentFlagz
      ? { '/flagz': ({ accept }) => servePage(flagz(agent.config.flags), accept) }
      : {}),
    ...(ComponentStatusz ? { '/statusz': ({ accept }) => servePage(page(), accept) } : {}),
  };
}

/**
 * The metrics server's own /healthz, which reports that the process answers and nothing about the
 * proxy, and /metrics/slis, which counts its answers (behaviour document 10.4).
 */
const check = { name: 'ping', type: 'healthz' } as const;

class Ping {
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
    if (!query.has('verbose')) return textReply(200, 'ok');
    const line = `[+]${check.name} ${isExcluded ? 'excluded: ok' : 'ok'}`;
    return textReply(200, `${line}\nhealthz check passed\n`);
  }

  async slis(asked: Asked): Promise<Reply> {
    if (asked.method === 'DELETE') {
      this.#last.reset();
      this.#total.reset();
      return textReply(200, 'metrics reset\n');
    }
    return exposition(this.registry, asked);
  }
}

/** Compresses on a thread of libuv, not on the event loop. */
const compress = promisify(gzip);

async function exposition(registry: Registry, asked: Asked): Promise<Reply> {
  const text = await registry.metrics();
  const headers = { 'Content-Type': registry.contentType, Vary: 'Accept-Encoding' };
  if (!acceptsGzip(asked.acceptEncoding)) return { status: 200, headers, body: text };
  const body = await compress(text);
  return { status: 200, headers: { ...headers, 'Content-Encoding': 'gzip' }, body };
}
