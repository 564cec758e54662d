/** Metrics of the program itself: its versions and its process. */
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';
import { fairleadVersion } from '../config/version.ts';
import type { ServerVersion } from '../source/source.ts';

/** Constant 1, with versions as labels. */
export function buildMetrics(
  registry: Registry,
  serverVersion: () => ServerVersion | undefined,
): void {
  const registers = [registry];
  const kubernetes = new Gauge({
    name: 'kubernetes_build_info',
    help: '[ALPHA] Version of the API server that this program serves, once it has said it',
    labelNames: ['major', 'minor', 'git_version', 'platform'],
    registers,
    collect: () => {
      const version = serverVersion();
      kubernetes.reset();
      if (version === undefined) return;
      const { gitVersion: git_version, major, minor, platform } = version;
      kubernetes.set({ major, minor, git_version, platform }, 1);
    },
  });
  const own = new Gauge({
    name: 'fairlead_build_info',
    help: 'Version of this program',
    labelNames: ['version', 'node_version'],
    registers,
  });
  own.set({ version: fairleadVersion, node_version: process.version }, 1);
}

/** Period of the timer behind the library's measure of the event loop. */
const eventLoopTimerMs = 3_600_000;

/**
 * Metrics of the process and of Node, except gauges whose names end like those of counters, and
 * except those whose timer would wake an idle process all the time:
 * `fairlead_event_loop_delay_seconds` needs no timer.
 */
export function processMetrics(registry: Registry): void {
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: eventLoopTimerMs,
  });
  for (const what of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99']) {
    registry.removeSingleMetric(`nodejs_eventloop_lag_${what}_seconds`);
  }
  for (const what of ['handles', 'requests', 'resources']) {
    registry.removeSingleMetric(`nodejs_active_${what}_total`);
  }
}
