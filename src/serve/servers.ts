/** The proxy's own HTTP servers: health, metrics, and the one for readers of other machines. */

import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Gauge, Registry } from 'prom-client';
import type { HostPort } from '../net/host-port.ts';
import { admitLocal, forThisNode } from './ask/admission.ts';
import type { AgentState } from './ask/agent-state.ts';
import { askRoutes } from './ask/routes.ts';
import type { ClusterEvents, NodeReason } from './cluster-events.ts';
import type { HttpThread } from './http/http-thread.ts';
import { type Logger, setVerbosity } from './log.ts';
import { metric } from './metric-table.ts';
import type { Metrics } from './metrics.ts';
import { profileRoutes } from './profile.ts';
import type { AccessOptions } from './readers/access.ts';
import {
  type Asked,
  acceptsGzip,
  jsonHeaders,
  type Reply,
  type Route,
  type Routes,
  textReply,
} from './reply.ts';
import { type ServeOptions, serve } from './server.ts';
import { flagz, type Page, servePage, statusz } from './zpages.ts';

/** Events of servers that cannot listen on their addresses. */
const failures = {
  healthz: 'FailedToStartProxierHealthcheck',
  metrics: 'FailedToStartMetricServer',
  read: 'FailedToStartReadServer',
} as const satisfies Readonly<Record<string, NodeReason>>;

interface ServersOptions {
  readonly http: HttpThread;
  readonly metrics: Metrics;
  /** Answers follow changes of its configuration; addresses do not. */
  readonly agent: AgentState;
  readonly log: Logger;
  readonly openReviews: AccessOptions['open'];
  /** Called once for each server that cannot listen on its address. */
  readonly failed: ClusterEvents['aboutNode'];
}

/** Metrics are made once for all waiting clients, and profiles take as long as requested. */
const handling = { '/metrics': 'shared', '/debug/pprof/profile': 'long' } as const;

/** Loads the page when it is first asked for. It never is on most nodes. */
function page(agent: AgentState): Route {
  let loading: Promise<Route> | undefined;
  const load = async (): Promise<Route> => (await import('./page/routes.ts')).pageRoute(agent);
  return async (asked) => {
    loading ??= load();
    return (await loading)(asked);
  };
}

/**
 * Until `signal` aborts. Rejects when a server can't bind and the configuration calls that fatal.
 */
export function runServers(options: ServersOptions, signal: AbortSignal): Promise<void>[] {
  const { http, agent, log, metrics, openReviews } = options;
  const { healthzBindAddress, metricsBindAddress, readBindAddress, ...config } = agent.config;
  const debug = config.profiling
    ? { ...debugRoutes((verbosity) => setVerbosity(log, verbosity)), ...profileRoutes() }
    : {};
  const ask = askRoutes(agent);
  const onBindFailure = config.bindAddressHardFail ? 'fail' : 'retry';
  const running: Promise<void>[] = [];
  const run = (
    name: keyof typeof failures,
    at: HostPort | undefined,
    served: (common: Omit<ServeOptions, 'routes'>) => Promise<void>,
  ): void => {
    if (at === undefined) return;
    let isReported = false;
    const problem = (error: Error): void => {
      log.error({ err: error.message }, 'Server failed');
      if (!isReported) options.failed(failures[name], error.message);
      isReported = true;
    };
    running.push(served({ http, at, onBindFailure, problem }));
  };
  run('healthz', healthzBindAddress, (common) => serve({ ...common, routes: 'probes' }, signal));
  run('metrics', metricsBindAddress, (common) => {
    const routes = {
      ...metricsRoutes(agent, metrics),
      ...ask(admitLocal),
      '/': page(agent),
      ...debug,
    };
    return serve({ ...common, routes, handling }, signal);
  });
  run('read', readBindAddress, async (server) => {
    // Loaded where it is on.
    const { serveReaders } = await import('./readers/read-server.ts');
    const { clock, nodeName } = agent;
    const problem = ({ message }: Error): void =>
      log.warn({ err: message }, 'Could not review a token; refusing clients of other machines');
    await serveReaders({ server, ask, nodeName, clock, open: openReviews, problem }, signal);
  });
  return running;
}

/** klog's verbosity is an int32. */
const verbosityMax = 2 ** 31 - 1;

/** What `enableProfiling` adds to the metrics server (behaviour document 10.4). */
export function debugRoutes(setVerbosity: (verbosity: number) => void): Routes {
  return forThisNode({
    '/debug/flags': () =>
      textReply(200, 'PUT a number to /debug/flags/v to change the verbosity\n'),
    '/debug/flags/v': ({ method, body }) => {
      if (method !== 'PUT') return textReply(406, `unsupported method ${method}: PUT a number\n`);
      const word = body.trim();
      if (!/^\d{1,10}$/.test(word) || Number(word) > verbosityMax) {
        return textReply(400, `${JSON.stringify(word)} is not a verbosity: PUT a number\n`);
      }
      setVerbosity(Number(word));
      return textReply(200, `successfully set verbosity to ${word}\n`);
    },
  });
}

/**
 * The routes of the metrics server, for Prometheus and people (behaviour document 10.4); port 10249
 * unless configured otherwise.
 */
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
