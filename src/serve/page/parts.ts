/** Views as HTML, and the parts that all pages have. */
import {
  type Age,
  type Block,
  type Cell,
  type Column,
  type Fact,
  type Instant,
  type Marked,
  none,
  type Step,
  type Table,
} from '../../ask/view.ts';
import { age, grouped } from '../../ask/words.ts';
import { type Content, Html, html, textsOf } from './html.ts';
import { script, style } from './look.ts';

/** `nowMs`: the time to which ages refer. */
export function blocksHtml(blocks: readonly Block[], nowMs: number): Content {
  return blocks.map((block) => blockHtml(block, nowMs));
}

function blockHtml(block: Block, nowMs: number): Content {
  if ('facts' in block) return facts(block.facts, nowMs);
  if ('table' in block) return table(block.table, nowMs);
  if ('list' in block) return list(block.list);
  if ('steps' in block) return steps(block.steps);
  if ('code' in block) return html`<p>${block.title}:</p><pre>${block.code.join('\n')}</pre>`;
  if (!('blocks' in block)) return html`<p>${block.text}</p>`;
  return html`<h3>${block.title}</h3>
<p>${block.text}</p>${blocksHtml(block.blocks, nowMs)}`;
}

/** A table with a title. The cell at `headAt` is the heading of its row. */
export function table({ columns, headAt = 0, rest, rows, title }: Table, nowMs: number): Html {
  const shown = columns.flatMap(({ kind }, i) =>
    kind === 'terminal' || (kind === 'wide' && !rows.some((row) => isFilled(row[i]))) ? [] : [i],
  );
  const content = grid({
    title,
    columns: shown.map((i) => columns[i]!),
    headAt: shown.indexOf(headAt),
    rows,
    cellsOf: (row) => shown.map((i) => cellHtml(row[i], nowMs)),
  });
  return html`${content}${rest && html`<p>${rest}</p>`}`;
}

/** Columns for `-o wide` are seldom filled, and then not shown. */
function isFilled(cell: Cell): boolean {
  return cell !== undefined && cell !== '' && cell !== none;
}

interface Grid<Row> {
  readonly title: string;
  readonly columns: readonly Column[];
  readonly headAt: number;
  readonly rows: readonly Row[];
  readonly cellsOf: (row: Row) => readonly Content[];
}

/** With at least this many columns, rows are cards on screens of medium width, too. */
const manyColumns = 8;

/** On a narrow screen each row is a card, in which cells have the names of their columns. */
export function grid<Row>({ cellsOf, columns, headAt, rows, title }: Grid<Row>): Html {
  const begin = columns.map((column) => html`<td data-name="${column.name}"${classOf(column)}>`);
  const line = (row: Row): Html => {
    const cells = cellsOf(row).map((content, i) => {
      if (i === headAt) return html`<th scope="row">${content}</th>`;
      return html`${begin[i]}${content}</td>`;
    });
    return html`<tr>${cells}</tr>\n`;
  };
  const titles = columns.map((column) => {
    return html`<th scope="col"${classOf(column)}>${column.name}</th>`;
  });
  const many = columns.length >= manyColumns ? html` class="many"` : undefined;
  return html`<div class="wide"><table aria-label="${title}"${many}><thead><tr>${titles}</tr></thead><tbody>
${rows.map(line)}</tbody></table></div>`;
}

function classOf({ kind }: Column): Content {
  return kind === 'number' ? html` class="num"` : undefined;
}

function cellHtml(cell: Cell, nowMs: number): Content {
  if (cell === undefined || typeof cell === 'string') return cell;
  if (typeof cell === 'number') return grouped(cell);
  if ('time' in cell) return moment(cell, nowMs);
  if ('text' in cell) return marked(cell);
  return cell.map((part, i) => [i === 0 ? '' : ' ', cellHtml(part, nowMs)]);
}

function marked({ names, text, tone }: Marked): Content {
  const shown = tone === undefined ? text : html`<span class="${tone}">${text}</span>`;
  if (names === undefined) return shown;
  const { namespace, service } = names;
  const path =
    service === undefined ? servicesPath({ namespace }) : servicePath(namespace, service);
  return html`<a href="${path}">${shown}</a>`;
}

/** A time, shown to the second, or how long ago it was. */
function moment({ isAge, time }: Instant | Age, nowMs: number): Html {
  const shown = isAge
    ? `${age((nowMs - Date.parse(time)) / 1000)} ago`
    : time.replace('T', ' ').replace(/\.\d+Z$/, ' UTC');
  return html`<time datetime="${time}">${shown}</time>`;
}

/** A rate; undefined: not known yet. */
export function aSecond(rate: number | undefined): string {
  return rate?.toFixed(1) ?? '…';
}

/** The page of a Service; `isMore`: with the pods of endpoints, and what these answered. */
export function servicePath(namespace: string, name: string, isMore = false): string {
  return `/?service=${encodeURIComponent(`${namespace}/${name}`)}${isMore ? '&more=true' : ''}`;
}

/** The list of Services, of those with these fields. */
export function servicesPath(fields: Readonly<Record<string, string>>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== '');
  const query = given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return `/?${query.join('&')}#services`;
}

/** The link to a section of the runbook. */
export function runbookLink(section: string): Html {
  return html`<a href="/?runbook#${section}">What to do</a>`;
}

/** Problems, each with its section of the runbook. */
export function problemList(problems: readonly string[], sections: readonly string[]): Html {
  return list(problems.map((problem, i) => [problem, ' ', runbookLink(sections[i]!)]));
}

/** A part of the page that the script renews. */
export function live(id: string, content: Content): Html {
  return html`<section id="${id}" data-live>
${content}
</section>
`;
}

export function facts(all: readonly Fact[], nowMs: number): Html {
  const lines = all.map(
    ([name, cell]) => html`<dt>${name}</dt><dd>${cellHtml(cell, nowMs)}</dd>\n`,
  );
  return html`<dl>${lines}</dl>`;
}

function steps(all: readonly Step[]): Html {
  const items = all.map(({ object, text }) => {
    return html`<li>${text}${object && html`<pre>${object}</pre>`}</li>`;
  });
  return html`<ol>${items}</ol>`;
}

export function list(items: readonly Content[]): Html {
  return html`<ul>${items.map((item) => html`<li>${item}</li>`)}</ul>`;
}

interface Page {
  readonly title: string;
  /** The name of the node. */
  readonly node: string;
  /** The path of the answer for programs. */
  readonly json: string;
  readonly body: Content;
}

/** A complete document: texts that follow one another. */
export function documentOf({ title, node, json, body }: Page): string[] {
  return textsOf`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${new Html(style)}</style>
</head>
<body>
<header>
<h1><a href="/">Fairlead on ${node}</a></h1>
<nav aria-label="Parts"><a href="/#services">Services</a> <a href="/#explain">Explain</a>
<a href="/#changes">Changes</a>
<a href="/#node">This node</a> <a href="/?runbook">Runbook</a></nav>
</header>
<main>
${body}</main>
<footer>
<button id="pause" type="button" hidden>Stop refreshing</button>
<span id="silent" class="bad" role="alert" hidden>Not renewed at present: this is what was known before.</span>
<span>For programs: <a href="${json}">${json}</a></span>
</footer>
<script>${new Html(script)}</script>
</body>
</html>
`;
}
