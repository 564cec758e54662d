/** Makes deploy/grafana/fairlead.json from the rows of this folder. */

import { conntrack, process, quarantine, services } from './node-rows.ts';
import { overview } from './overview.ts';
import type { NodeTable, Panel, Row } from './panel.ts';
import { drift, health, latency, watches } from './proxy-rows.ts';
import { connectTime, ipvs } from './translation-rows.ts';

const rows: readonly Row[] = [
  overview,
  health,
  latency,
  watches,
  drift,
  quarantine,
  conntrack,
  services,
  connectTime,
  ipvs,
  process,
];

const datasource = { type: 'prometheus', uid: '$datasource' };

/** The selector of the chosen nodes. `$of` stands for it in queries. */
const ofInstances = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"';

const gridColumns = 24;
const panelHeight = 7;
const statHeight = 4;
const tableHeight = 8;

function targets({ queries }: Panel) {
  return Object.entries(queries).map(([legend, expr], i) => ({
    refId: String.fromCharCode('A'.charCodeAt(0) + i),
    datasource,
    expr: expr.replaceAll('$of', ofInstances),
    legendFormat: legend,
    range: true,
  }));
}

function panel(spec: Panel, id: number, x: number, y: number, width: number) {
  return {
    id,
    type: 'timeseries',
    title: spec.title,
    description: spec.meaning,
    datasource,
    gridPos: { x, y, w: width, h: panelHeight },
    fieldConfig: { defaults: { unit: spec.unit ?? 'short', min: 0 }, overrides: [] },
    options: {
      legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    targets: targets(spec),
  };
}

function statPanel(spec: Panel, id: number, x: number, y: number, width: number) {
  const { redFrom } = spec.stat!;
  const steps = [{ color: 'green', value: null }];
  const all = redFrom === undefined ? steps : [...steps, { color: 'red', value: redFrom }];
  const thresholds = { mode: 'absolute', steps: all };
  return {
    ...panel(spec, id, x, y, width),
    type: 'stat',
    gridPos: { x, y, w: width, h: statHeight },
    fieldConfig: { defaults: { unit: spec.unit ?? 'short', thresholds }, overrides: [] },
    options: {
      colorMode: redFrom === undefined ? 'none' : 'value',
      graphMode: 'none',
      reduceOptions: { calcs: ['lastNotNull'] },
    },
  };
}

/** Rows of several queries are joined by the label `instance`. */
function tablePanel({ title, meaning, columns, units }: NodeTable, id: number, y: number) {
  const all = Object.entries(columns);
  const targets = all.map(([heading, column], i) => ({
    refId: String.fromCharCode('A'.charCodeAt(0) + i),
    datasource,
    expr: (typeof column === 'string' ? column : column.query).replaceAll('$of', ofInstances),
    legendFormat: heading,
    format: 'table',
    instant: true,
  }));
  const values = all.flatMap(([heading, column], i) =>
    typeof column === 'string' ? [[`Value #${targets[i]!.refId}`, heading]] : [],
  );
  const labels = all.flatMap(([heading, column]) =>
    typeof column === 'string' ? [] : [[column.label, heading]],
  );
  const renameByName = Object.fromEntries([['instance', 'Node'], ...labels, ...values]);
  const shown = Object.keys(renameByName);
  return {
    id,
    type: 'table',
    title,
    description: meaning,
    datasource,
    gridPos: { x: 0, y, w: gridColumns, h: tableHeight },
    fieldConfig: {
      defaults: {},
      overrides: Object.entries(units).map(([heading, unit]) => ({
        matcher: { id: 'byName', options: heading },
        properties: [{ id: 'unit', value: unit }],
      })),
    },
    options: { showHeader: true, sortBy: [{ displayName: 'Node', desc: false }] },
    targets,
    transformations: [
      { id: 'joinByField', options: { byField: 'instance', mode: 'outer' } },
      { id: 'filterFieldsByName', options: { include: { names: shown } } },
      { id: 'organize', options: { renameByName } },
    ],
  };
}

/**
 * Lays the rows out below one another. Each has a heading, and lines of at most three panels; those
 * that are numbers are all in one line.
 */
function panels(all: readonly Row[]) {
  const placed: object[] = [];
  let y = 0;
  for (const { title, panels: specs, table } of all) {
    const gridPos = { x: 0, y, w: gridColumns, h: 1 };
    placed.push({ id: placed.length + 1, type: 'row', title, collapsed: false, gridPos });
    y += 1;
    const stats = specs.filter(({ stat }) => stat !== undefined);
    for (const [i, spec] of stats.entries()) {
      const width = Math.floor(gridColumns / stats.length);
      placed.push(statPanel(spec, placed.length + 1, i * width, y, width));
    }
    if (stats.length > 0) y += statHeight;
    const graphs = specs.filter(({ stat }) => stat === undefined);
    for (let from = 0; from < graphs.length; from += 3) {
      const line = graphs.slice(from, from + 3);
      const width = gridColumns / line.length;
      for (const [i, spec] of line.entries()) {
        placed.push(panel(spec, placed.length + 1, i * width, y, width));
      }
      y += panelHeight;
    }
    if (table === undefined) continue;
    placed.push(tablePanel(table, placed.length + 1, y));
    y += tableHeight;
  }
  return placed;
}

/** A variable with all values of a label. Series without the label count as chosen. */
function chosen(name: string, label: string, series: string) {
  return {
    name,
    label,
    type: 'query',
    datasource,
    query: { query: `label_values(${series}, ${name})`, refId: name },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { text: 'All', value: '$__all' },
  };
}

const variables = [
  { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' },
  chosen('cluster', 'Cluster', 'fairlead_build_info'),
  chosen('job', 'Job', 'fairlead_build_info{cluster=~"$cluster"}'),
  chosen('instance', 'Node', 'fairlead_build_info{cluster=~"$cluster", job=~"$job"}'),
];

export function dashboard(): string {
  const board = {
    uid: 'fairlead',
    title: 'Fairlead',
    tags: ['kubernetes', 'services'],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    templating: { list: variables },
    panels: panels(rows),
  };
  return `${JSON.stringify(board, undefined, 2)}\n`;
}
