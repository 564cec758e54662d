/** Panels of the dashboard. `$of` in a query stands for the selector of the chosen nodes. */

export interface Panel {
  readonly title: string;
  /** What the values mean, and which are normal. */
  readonly meaning: string;
  /** Grafana's name of the unit. Without one, values are plain numbers. */
  readonly unit?: 's' | 'bytes' | 'percentunit' | 'reqps' | 'ops' | 'cps';
  /** Queries by legend. */
  readonly queries: Readonly<Record<string, string>>;
  /** A number instead of a graph. Its colour is red from this value on, if it has one. */
  readonly stat?: { readonly redFrom?: number };
}

/** A table with a row for each node. */
export interface NodeTable {
  readonly title: string;
  readonly meaning: string;
  /** Queries by the heading of their column. Labels that are shown are named by heading, too. */
  readonly columns: Readonly<Record<string, string | { query: string; label: string }>>;
  readonly units: Readonly<Record<string, 's' | 'bytes' | 'percentunit'>>;
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
  readonly table?: NodeTable;
}

export const window = '[$__rate_interval]';

/** Events per second, by labels. */
export function rate(metric: string, by: string, labels = '$of'): string {
  return `sum by (${by}) (rate(${metric}{${labels}}${window}))`;
}

/** A percentile of a histogram of seconds or bytes. */
export function percentile(fraction: number, histogram: string, by = '', labels = '$of'): string {
  const grouping = by === '' ? 'le' : `le, ${by}`;
  return `histogram_quantile(${fraction}, ${rate(`${histogram}_bucket`, grouping, labels)})`;
}

export const syncs = 'kubeproxy_sync_proxy_rules';
