/** The parts that the pages are made of. */
import { type Content, Html, html } from './html.ts';
import { script, style } from './look.ts';

/** Undefined cells are empty. */
export interface Table {
  readonly heads: readonly Head[];
  readonly rows: readonly (readonly Content[])[];
}

export interface Head {
  readonly name: string;
  /** `number`: aligned right. `later`: hidden on a narrow screen. */
  readonly kind?: 'number' | 'later';
}

/** A table. The first cell of each row is its heading. `label` names the table. */
export function table(label: string, { heads, rows }: Table): Html {
  const classes = heads.map(({ kind }) => classOf(kind));
  const line = (cells: readonly Content[]): Html => {
    const [first, ...rest] = cells;
    return html`<tr><th scope="row"${classes[0]}>${first}</th>${rest.map(
      (cell, i) => html`<td${classes[i + 1]}>${cell}</td>`,
    )}</tr>
`;
  };
  const titles = heads.map(({ name }, i) => html`<th scope="col"${classes[i]}>${name}</th>`);
  return html`<div class="wide"><table aria-label="${label}"><thead><tr>${titles}</tr></thead><tbody>
${rows.map(line)}</tbody></table></div>`;
}

function classOf(kind: Head['kind']): Content {
  if (kind === undefined) return undefined;
  return html` class="${kind === 'number' ? 'num' : 'later'}"`;
}

/** A part of the page that the script renews. */
export function live(id: string, content: Content): Html {
  return html`<section id="${id}" data-live>
${content}
</section>
`;
}

export function pairs(lines: readonly (readonly [string, Content])[]): Html {
  return html`<dl>${lines.map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>\n`)}</dl>`;
}

export function list(items: readonly Content[]): Html {
  return html`<ul>${items.map((item) => html`<li>${item}</li>`)}</ul>`;
}

/** A time, shown to the second. */
export function moment(time: string): Html {
  return html`<time datetime="${time}">${time.replace('T', ' ').replace(/\.\d+Z$/, ' UTC')}</time>`;
}

interface Page {
  readonly title: string;
  /** The name of the node. */
  readonly node: string;
  /** The path of the answer that programs get. */
  readonly json: string;
  readonly body: Content;
}

/** A whole document. */
export function documentOf({ title, node, json, body }: Page): string {
  const { text } = html`<!doctype html>
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
<nav aria-label="Parts"><a href="/#services">Services</a> <a href="/#changes">Changes</a>
<a href="/#node">This node</a></nav>
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
  return text;
}
