/** Makes deploy/grafana/fairlead.json from the rows of this folder. */

import { conntrack, process, quarantine, services } from './node-rows.ts';
import type { Panel, Row } from './panel.ts';
import { drift, health, latency, watches } from './proxy-rows.ts';

const rows: readonly Row[] = [
  health,
  latency,
  watches,
  drift,
  quarantine,
  conntrack,
  services,
  process,
];

const datasource = { type: 'prometheus', uid: '$datasource' };

/** The selector of the chosen nodes. `$of` stands for it in queries. */
const ofInstances = 'instance=~"$instance"';

const gridColumns = 24;
const panelHeight = 7;

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

/** Lays the rows out below one another. Each has a heading, and lines of at most three panels. */
function panels(all: readonly Row[]) {
  const placed: object[] = [];
  let y = 0;
  for (const { title, panels: specs } of all) {
    const gridPos = { x: 0, y, w: gridColumns, h: 1 };
    placed.push({ id: placed.length + 1, type: 'row', title, collapsed: false, gridPos });
    y += 1;
    for (let from = 0; from < specs.length; from += 3) {
      const line = specs.slice(from, from + 3);
      const width = gridColumns / line.length;
      for (const [i, spec] of line.entries()) {
        placed.push(panel(spec, placed.length + 1, i * width, y, width));
      }
      y += panelHeight;
    }
  }
  return placed;
}

const variables = [
  { name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' },
  {
    name: 'instance',
    label: 'Node',
    type: 'query',
    datasource,
    query: { query: 'label_values(fairlead_build_info, instance)', refId: 'instances' },
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    current: { text: 'All', value: '$__all' },
  },
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
