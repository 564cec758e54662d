/** The runbook, for whoever has no other access to the documents. */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { shippedFile } from '../../config/shipped-file.ts';
import { Refusal } from '../ask/refusal.ts';
import { type Content, Html, html } from './html.ts';
import { grid } from './parts.ts';

/** Throws a Refusal if the file is missing. */
export async function runbookSection(path = shippedFile('runbook.md')): Promise<Html> {
  const blocks = markdownHtml(await textOf(path));
  return new Html(blocks.map(({ text }) => text).join(''));
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(404, `the runbook is not part of this installation: ${path}: ${code}`);
  }
}

/** `A Service is unreachable` -> `a-service-is-unreachable`, as GitHub names anchors. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

/** The blocks of a document. Of links to other documents, which a node lacks, the file is named. */
function markdownHtml(text: string): Html[] {
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
