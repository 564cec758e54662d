/** The Markdown of the runbook as HTML: headings, paragraphs, tables, code, links. */
import { basename } from 'node:path';
import { type Content, Html, html } from './html.ts';
import { grid } from './parts.ts';

/** `A Service is unreachable` -> `a-service-is-unreachable`, as GitHub names anchors. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

/** The blocks of a document. Of links to other documents, which a node lacks, the file is named. */
export function markdownHtml(text: string): Html[] {
  const blocks = text.match(/^```[\s\S]*?^```$|(?:^(?!```).*\S.*\n?)+/gm) ?? [];
  return blocks.map((block) => blockHtml(block.trimEnd()));
}

function blockHtml(block: string): Html {
  if (block.startsWith('```')) {
    return html`<pre>${block.split('\n').slice(1, -1).join('\n')}</pre>\n`;
  }
  const [, level, heading] = /^(#+) (.*)$/.exec(block) ?? [];
  if (level !== undefined && heading !== undefined) return headingHtml(level.length, heading);
  if (block.startsWith('|')) return tableHtml(block);
  return html`<p>${inline(block)}</p>\n`;
}

/** The page has a heading of the first level already. */
function headingHtml(level: number, text: string): Html {
  const tag = new Html(level < 3 ? 'h2' : 'h3');
  return html`<${tag} id="${anchorOf(text)}">${inline(text)}</${tag}>\n`;
}

function tableHtml(block: string): Html {
  const [head = [], , ...rows] = block.split('\n').map(cellsOf);
  const names = head.map((name) => name.replaceAll('`', ''));
  return grid({
    title: names.join(', '),
    columns: names.map((name) => ({ name })),
    headAt: 0,
    rows,
    cellsOf: (row) => row.map(inline),
  });
}

function cellsOf(line: string): string[] {
  return line
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim());
}

/** Code and links within a sentence. */
function inline(text: string): Content {
  const parts = text.split(/(`[^`]+`|\[[^\]]+\]\([^)]+\))/);
  return parts.map((part, i) => {
    if (i % 2 === 0) return part;
    if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`;
    const [, name = '', target = ''] = /^\[(.+)\]\((.+)\)$/.exec(part) ?? [];
    if (target.startsWith('#')) return html`<a href="${target}">${inline(name)}</a>`;
    return [inline(name), ` (${basename(target).replace(/#.*/, '')})`];
  });
}
