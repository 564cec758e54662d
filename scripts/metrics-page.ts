/** Makes docs/metrics.md from the registries that the program exposes. */
import type { Registry } from 'prom-client';
import type { Kernel } from '../src/kernel/kernel.ts';
import { availableModes } from '../src/modes/index.ts';
import { Descriptors } from '../src/modes/sockets/descriptors.ts';
import { affinityMetrics } from '../src/serve/affinity-metrics.ts';
import { connectTimeMetrics } from '../src/serve/connect-time-metrics.ts';
import { conntrackTableMetrics } from '../src/serve/conntrack-metrics.ts';
import { infoMetrics } from '../src/serve/info-metrics.ts';
import { ipvsMetrics } from '../src/serve/ipvs-metrics.ts';
import { logMetrics } from '../src/serve/log-metrics.ts';
import { Metrics } from '../src/serve/metrics.ts';
import { Ping } from '../src/serve/ping.ts';
import { problemMetrics } from '../src/serve/problem-metrics.ts';
import { serviceMetrics } from '../src/serve/service-metrics.ts';
import { socketMetrics } from '../src/serve/socket-metrics.ts';
import { systemClock } from '../src/time/clock.ts';
import { code, notice, table } from './markdown.ts';

interface Described {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labelNames: readonly string[];
}

/** The metrics are described and not collected, so no kernel is needed. */
const noKernel = {} as Kernel;

/** Every metric of every mode, by name. */
function allMetrics(): Described[] {
  const metrics = new Metrics({
    featureGates: {},
    condition: () => ({ silenceMs: undefined, missingMs: undefined, failure: undefined }),
    serverVersion: () => undefined,
    overLimit: () => 0,
    families: () => [],
    localhostListeners: () => 0,
    counters: async () => [],
  });
  const { registry } = metrics;
  ipvsMetrics(registry, noKernel, () => false);
  affinityMetrics(registry, noKernel, () => undefined);
  conntrackTableMetrics(registry, undefined);
  connectTimeMetrics(registry, {
    clock: systemClock,
    wanted: () => 'off',
    exclusion: () => undefined,
    stale: () => ({ attached: 0 }),
    families: () => [],
    maps: () => undefined,
  });
  infoMetrics(registry, { config: () => ({ mode: '', document: {} }), mode: () => 'nftables' });
  serviceMetrics(registry, { read: async () => undefined });
  problemMetrics(registry, {
    catchUp: async () => {},
    healthy: () => true,
    counts: () => ({ services: 0, byReason: new Map() }),
  });
  logMetrics(registry, { leftOut: 0 });
  socketMetrics(registry, new Descriptors());
  const found = new Map<string, Described>();
  const note = (from: Registry): void => {
    // The library returns the metrics themselves, which have more fields than their declared type.
    for (const metric of from.getMetricsAsArray() as unknown as Described[]) {
      found.set(metric.name, metric);
    }
  };
  note(new Ping().registry);
  for (const mode of availableModes()) {
    metrics.running(mode);
    note(registry);
  }
  metrics.close();
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

const groups = [
  ['Of Fairlead', /^fairlead_/],
  ['Of kube-proxy, under its names', /^(kubeproxy|kubernetes|rest_client)_/],
  ['Of the process and of Node.js', /^(process|nodejs)_/],
] as const;

export function metricsPage(): string {
  const all = allMetrics();
  const sections = groups.map(([title, names]) => {
    const rows = all
      .filter(({ name }) => names.test(name))
      .map(({ name, type, help, labelNames }) => {
        const labels = labelNames.map(code).join(', ');
        return [code(name), type, labels, help.replace(/^\[[A-Z]+\] /, '')];
      });
    return `## ${title}\n\n${table(['Metric', 'Type', 'Labels', 'Meaning'], rows)}\n`;
  });
  return `# Metrics

${notice}

What \`/metrics\` and \`/metrics/slis\` on port 10249 have. Those that kube-proxy has in one mode only are there while that mode runs.

${sections.join('\n')}`;
}
