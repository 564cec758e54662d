/** The proxy's own two HTTP servers: health, and metrics. */
import { forThisNode } from './ask/admission.ts';
import type { AgentState } from './ask/agent-state.ts';
import { askRoutes } from './ask/routes.ts';
import type { HttpThread } from './http/http-thread.ts';
import { type Logger, setVerbosity } from './log.ts';
import type { Metrics } from './metrics.ts';
import { profileRoutes } from './profile.ts';
import { type Route, type Routes, textReply } from './reply.ts';
import { metricsRoutes } from './routes.ts';
import { serve } from './server.ts';

interface ServersOptions {
  readonly http: HttpThread;
  readonly metrics: Metrics;
  /** Answers follow changes of its configuration; addresses do not. */
  readonly agent: AgentState;
  readonly log: Logger;
  /** Called once for each server that cannot listen on its address. */
  readonly failed: (server: 'healthz' | 'metrics', error: Error) => void;
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
  const { http, agent, log, metrics } = options;
  const { bindAddressHardFail, healthzBindAddress, metricsBindAddress, profiling } = agent.config();
  const debug = profiling
    ? { ...debugRoutes((verbosity) => setVerbosity(log, verbosity)), ...profileRoutes() }
    : {};
  const servers = [
    ['healthz', healthzBindAddress, 'probes'],
    [
      'metrics',
      metricsBindAddress,
      {
        ...metricsRoutes(agent.config, () => agent.mode().name, metrics),
        ...askRoutes(agent),
        '/': page(agent),
        ...debug,
      },
    ],
  ] as const;
  const onBindFailure = bindAddressHardFail ? 'fail' : 'retry';
  return servers.flatMap(([name, at, routes]) => {
    if (at === undefined) return [];
    let isReported = false;
    const problem = (error: Error): void => {
      log.error({ err: error.message }, 'Server failed');
      if (!isReported) options.failed(name, error);
      isReported = true;
    };
    return [serve({ http, at, routes, handling, onBindFailure, problem }, signal)];
  });
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
