/** The last changes in the kernel, and how long each took. */
import type { ChangeList, ServiceAnswer } from '../../ask/service.ts';
import { endpointsChanged, whatChanged } from '../../ask/service-words.ts';
import { age } from '../../ask/words.ts';
import { type Content, type Html, html } from './html.ts';
import { type Head, live, table } from './parts.ts';
import { servicePath } from './services.ts';

type Change = ServiceAnswer['changes'][number];

export const changesShown = 15;
export const changesMost = 200;

const heads: readonly Head[] = [
  { name: 'When' },
  { name: 'Port', kind: 'later' },
  { name: 'Family', kind: 'later' },
  { name: 'What' },
  { name: 'Endpoints' },
  { name: 'Took', kind: 'number' },
];

export function changesSection({ items }: ChangeList, nowMs: number): Html {
  const rows = items.map((change) => {
    const { namespace, service } = change;
    const link = html`<a href="${servicePath(namespace, service)}">${namespace}/${service}</a>`;
    return [link, ...cells(change, nowMs)];
  });
  const isCut = items.length === changesShown;
  return live('changes', [
    html`<h2>Recent changes</h2>`,
    rows.length === 0
      ? html`<p>None yet.</p>`
      : table('Recent changes', { heads: [{ name: 'Service' }, ...heads], rows }),
    isCut ? html`<p><a href="/?changes=${changesMost}#changes">More changes</a></p>` : undefined,
  ]);
}

/** The last changes of one Service. */
export function changesTable(changes: readonly Change[], nowMs: number): Html {
  return table('Recent changes', { heads, rows: changes.map((change) => cells(change, nowMs)) });
}

function cells(change: Change, nowMs: number): Content[] {
  const { family, latencyMs, port, protocol, time } = change;
  return [
    html`<time datetime="${time}">${age((nowMs - Date.parse(time)) / 1000)} ago</time>`,
    port === '' ? protocol : `${port}/${protocol}`,
    family,
    whatChanged(change),
    endpointsChanged(change),
    latencyMs === undefined ? undefined : `${latencyMs} ms`,
  ];
}
