/** The last changes in the kernel, and how long each took. */
import type { ChangeList } from '../../ask/service.ts';
import { allChangesTable } from '../../ask/views/service.ts';
import { type Html, html } from './html.ts';
import { live, table } from './parts.ts';

export const changesShown = 15;
export const changesMost = 200;

export function changesSection(changes: ChangeList, nowMs: number): Html {
  const { length } = changes.items;
  return live('changes', [
    html`<h2>Recent changes</h2>`,
    length === 0 ? html`<p>None yet.</p>` : table(allChangesTable(changes), nowMs),
    length === changesShown
      ? html`<p><a href="/?changes=${changesMost}#changes">More changes</a></p>`
      : undefined,
  ]);
}
