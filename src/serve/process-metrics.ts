/** Metrics of the program itself: its versions and its process. */
import { Gauge, type Registry } from 'prom-client';
import gc from 'prom-client/lib/metrics/gc.js';
import heapSizeAndUsed from 'prom-client/lib/metrics/heapSizeAndUsed.js';
import heapSpacesSizeAndUsed from 'prom-client/lib/metrics/heapSpacesSizeAndUsed.js';
import osMemoryHeap from 'prom-client/lib/metrics/osMemoryHeap.js';
import processCpuTotal from 'prom-client/lib/metrics/processCpuTotal.js';
import processMaxFileDescriptors from 'prom-client/lib/metrics/processMaxFileDescriptors.js';
import processOpenFileDescriptors from 'prom-client/lib/metrics/processOpenFileDescriptors.js';
import processStartTime from 'prom-client/lib/metrics/processStartTime.js';
import version from 'prom-client/lib/metrics/version.js';
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

/** Of the library's, those of the process and of Node that read only when they are asked. */
const ofProcess = [
  processCpuTotal,
  processStartTime,
  osMemoryHeap,
  processOpenFileDescriptors,
  processMaxFileDescriptors,
  heapSizeAndUsed,
  heapSpacesSizeAndUsed,
  version,
  gc,
];

/**
 * Metrics of the process and of Node. The library's gauges of the event loop have a timer, and a
 * histogram of 0.4 MB, behind them: the lag is measured here, the rest is
 * `fairlead_event_loop_delay_seconds`.
 */
export function processMetrics(registry: Registry): void {
  for (const add of ofProcess) add(registry);
  const lag = new Gauge({
    name: 'nodejs_eventloop_lag_seconds',
    help: 'Lag of event loop in seconds.',
    registers: [registry],
    collect: () => {
      const askedMs = performance.now();
      setImmediate(() => lag.set((performance.now() - askedMs) / 1000));
    },
  });
}
