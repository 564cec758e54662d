/** Makes docs/metrics.md from the table of metrics, and the library's metrics of the process. */
import { Registry } from 'prom-client';
import { libraryMetrics } from '../src/serve/collectors.ts';
import { type MetricName, metricTable } from '../src/serve/metric-table.ts';
import { code, notice, table } from './markdown.ts';

interface Described {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labels: readonly string[];
}

/** Every metric of every mode, by name. */
function allMetrics(): Described[] {
  const registry = new Registry();
  libraryMetrics(registry);
  // The library returns the metrics themselves, which have more fields than their declared type.
  const others = registry.getMetricsAsArray() as unknown as (Described & {
    readonly labelNames: readonly string[];
  })[];
  const names = Object.keys(metricTable) as MetricName[];
  return [
    ...names.map((name) => ({ name, ...metricTable[name] })),
    ...others.map((one) => ({ ...one, name: one.name, labels: one.labelNames })),
  ].sort((a, b) => (a.name < b.name ? -1 : 1));
}

const groups = [
  ['Of Fairlead', /^fairlead_/],
  ['Of kube-proxy, under its names', /^(kubeproxy|kubernetes|rest_client)_/],
] as const;

export function metricsPage(): string {
  const all = allMetrics();
  const sections = groups.map(([title, names]) => {
    const rows = all
      .filter(({ name }) => names.test(name))
      .map(({ name, type, help, labels }) => {
        return [code(name), type, labels.map(code).join(', '), help.replace(/^\[[A-Z]+\] /, '')];
      });
    return `## ${title}\n\n${table(['Metric', 'Type', 'Labels', 'Meaning'], rows)}\n`;
  });
  const others = all.filter(({ name }) => groups.every(([, names]) => !names.test(name)));
  return `# Metrics

${notice}

\`/metrics\` and \`/metrics/slis\` on port 10249 have these. Those that kube-proxy has in one mode only
are there while that mode runs.

${sections.join('\n')}
## Of the process and of Node.js

As the library prom-client names and explains them: ${others.map(({ name }) => code(name)).join(', ')}.
`;
}
