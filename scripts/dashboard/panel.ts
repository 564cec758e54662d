/** Panels of the dashboard. `$of` in a query stands for the nodes that the reader has chosen. */

export interface Panel {
  readonly title: string;
  /** What it means, and what is normal. */
  readonly meaning: string;
  /** One of Grafana's; a number without a unit if left out. */
  readonly unit?: 's' | 'bytes' | 'percentunit' | 'reqps' | 'ops' | 'cps';
  /** Queries by legend. */
  readonly queries: Readonly<Record<string, string>>;
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

export const window = '[$__rate_interval]';

/** Events a second, by labels. */
export function rate(metric: string, by: string, labels = '$of'): string {
  return `sum by (${by}) (rate(${metric}{${labels}}${window}))`;
}

/** A percentile of a histogram of seconds or bytes. */
export function percentile(fraction: number, histogram: string, by = '', labels = '$of'): string {
  const grouping = by === '' ? 'le' : `le, ${by}`;
  return `histogram_quantile(${fraction}, ${rate(`${histogram}_bucket`, grouping, labels)})`;
}

export const syncs = 'kubeproxy_sync_proxy_rules';
