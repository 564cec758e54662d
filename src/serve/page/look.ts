/** The only style sheet and the only script of the page, which is readable without both. */
import { createHash } from 'node:crypto';

/** Rows as cards: a cell follows the name of its column. Headings remain as buttons that sort. */
const cards = (tables: string): string => `
  ${tables}, ${tables} :is(thead, tbody) { display: block; }
  ${tables} thead th { display: none; }
  ${tables} thead tr { display: flex; flex-wrap: wrap; gap: 0 .9rem; }
  ${tables} thead .sorts { display: block; border: 0; padding: 0;
    text-decoration: underline dotted; }
  ${tables} thead tr:has(.sorts)::before { content: 'Sort by'; color: var(--dim);
    font-size: .85rem; }
  ${tables} tbody tr { display: flex; flex-wrap: wrap; gap: 0 .9rem; padding: .4rem 0;
    border-bottom: 1px solid var(--line); }
  ${tables} tbody :is(th, td) { border: 0; padding: 0; min-width: 0; }
  ${tables} tbody th { flex-basis: 100%; order: -1; }
  ${tables} td.num { text-align: left; }
  ${tables} td:empty { display: none; }
  ${tables} td::before { content: attr(data-name) ' '; color: var(--dim); font-size: .85rem; }
`;

export const style = `
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --dim: #57606a; --line: #d0d7de;
  --link: #0550ae; --good: #116329; --bad: #a40e26; --shade: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --back: #0f1318; --text: #e6edf3; --dim: #9aa7b4; --line: #30373f;
    --link: #79b8ff; --good: #56d364; --bad: #ff8f8f; --shade: #171c23; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
h1 { font-size: 1.25rem; margin: 0; }
h1 a { color: var(--text); text-decoration: none; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .5rem 0; }
header { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; }
header nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin-left: auto; }
.verdict { border-left: .3rem solid var(--good); background: var(--shade); padding: .6rem .9rem;
  margin: .75rem 0; font-size: 1.1rem; }
.verdict.bad { border-color: var(--bad); }
.good { color: var(--good); }
.bad { color: var(--bad); }
.verdict.bad { color: var(--text); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: .5rem; }
.tiles div { display: flex; flex-direction: column-reverse; justify-content: flex-end;
  background: var(--shade); padding: .5rem .75rem; border-left: .2rem solid var(--line); }
.tiles div.bad { border-color: var(--bad); }
.tiles dt { font-size: .85rem; }
.tiles dd { font-size: 1.5rem; line-height: 1.2; margin: 0; font-variant-numeric: tabular-nums; }
svg { width: 12rem; max-width: 100%; height: 1.5rem; border-bottom: 1px solid var(--line);
  vertical-align: bottom; fill: var(--link); }
.sorts { cursor: pointer; }
.sorts[aria-sort='ascending']::after { content: ' ↑'; }
.sorts[aria-sort='descending']::after { content: ' ↓'; }
#explain + form input { width: 22rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-bottom: .75rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--dim); font-size: .85rem; font-weight: 600; white-space: nowrap; }
th, td { overflow-wrap: break-word; }
tbody th { font-weight: 600; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
th.num, td.num { text-align: right; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .5rem 0; }
dt { color: var(--dim); }
dd { margin: 0; }
form { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: end; margin: .5rem 0 1rem; }
label { display: grid; font-size: .85rem; color: var(--dim); }
input, select, button { font: inherit; color: var(--text); background: var(--back);
  border: 1px solid var(--dim); border-radius: .25rem; padding: 0 .6rem;
  height: 2.2rem; max-width: 100%; }
ul { padding-left: 1.25rem; margin: .5rem 0; }
pre { font: .9rem/1.5 ui-monospace, monospace;
  white-space: pre-wrap; background: var(--shade); padding: .6rem .9rem; }
footer { margin-top: 2rem; color: var(--dim); font-size: .85rem; display: flex; flex-wrap: wrap;
  gap: .5rem 1rem; align-items: center; }
[hidden] { display: none; }
@media (max-width: 60rem) {${cards('table.many')}}
@media (max-width: 40rem) {${cards('table')}
  body { padding: .75rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; }
  header nav { margin-left: 0; }
  label { flex: 1 1 9rem; }
  input, select { width: 100%; }
}
`;

/**
 * Replaces the live parts of the page by new ones, except a part that the reader is using. Sorts
 * tables of more than two rows, but not those of the runbook.
 */
export const script = `
const pause = document.getElementById('pause');
const silent = document.getElementById('silent');
const isLive = document.querySelector('[data-live]') !== null;
pause.hidden = !isLive;
pause.onclick = () => {
  document.body.classList.toggle('paused');
  pause.textContent = isPaused() ? 'Refresh again' : 'Stop refreshing';
};
const isPaused = () => document.body.classList.contains('paused');
const isInUse = (part) => part.contains(document.activeElement) || !getSelection().isCollapsed;
const orders = new Map();
const titles = () => [...document.querySelectorAll('section thead th')]
  .filter((title) => title.closest('table').tBodies[0].rows.length > 2);
function order(table) {
  const { column, sign } = orders.get(table.ariaLabel);
  const body = table.tBodies[0];
  const text = ({ cells }) =>
    cells[column].querySelector('time')?.dateTime ?? cells[column].textContent;
  const rows = [...body.rows].sort((a, b) =>
    sign * text(a).localeCompare(text(b), undefined, { numeric: true }));
  body.append(...rows);
  table.querySelectorAll('thead th').forEach((title, i) => {
    title.ariaSort = i !== column ? 'none' : sign > 0 ? 'ascending' : 'descending';
  });
}
function prepare() {
  for (const title of titles()) {
    title.classList.add('sorts');
    title.tabIndex = 0;
    const table = title.closest('table');
    title.onclick = ({ detail }) => {
      const { column, sign } = orders.get(table.ariaLabel) ?? {};
      const own = title.cellIndex;
      orders.set(table.ariaLabel, { column: own, sign: column === own ? -sign : 1 });
      order(table);
      if (detail > 0) title.blur();
    };
    title.onkeydown = ({ key }) => key === 'Enter' && title.click();
  }
  for (const table of document.querySelectorAll('table')) {
    if (orders.has(table.ariaLabel)) order(table);
  }
}
prepare();
async function refresh() {
  const parts = [...document.querySelectorAll('[data-live]')];
  if (!isPaused() && !document.hidden && !parts.some(isInUse)) {
    try {
      const answer = await fetch(location.href, { signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error();
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
      document.title = next.title;
      for (const part of parts) {
        const news = next.getElementById(part.id);
        if (news && !isInUse(part)) part.replaceWith(news);
      }
      prepare();
      silent.hidden = true;
    } catch {
      silent.hidden = false;
    }
  }
  setTimeout(refresh, 2000);
}
if (isLive) setTimeout(refresh, 2000);
`;

/**
 * What a browser may do with the page: show it, run this script, and send requests to this server.
 */
export const contentSecurityPolicy = [
  "default-src 'none'",
  `style-src ${hashOf(style)}`,
  `script-src ${hashOf(script)}`,
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
