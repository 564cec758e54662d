/** Views as text for a terminal. */
import type { Block, Cell, Fact, Step, Table } from '../ask/view.ts';
import { printable, widthOf } from './printable.ts';

/** Marks in text before a tone begins, and where it ends. Printable text does not contain them. */
const mark = '\u0001';
const marks = { bad: `${mark}r`, good: `${mark}g`, end: `${mark}.` } as const;
/** A mark, with its letter. */
export const anyMark = new RegExp(`${mark}([rg.])`);

/** `text` as good or bad news, shown in colour on a terminal with colours. */
function toned(text: string, tone: 'bad' | 'good'): string {
  return marks[tone] + text + marks.end;
}

export interface Form {
  /** With all columns. */
  readonly wide: boolean;
  /** Tables have headings. */
  readonly headings: boolean;
}

const standard: Form = { wide: false, headings: true };

/** Blocks, with an empty line between them. */
export function blocksText(blocks: readonly Block[], form = standard): string {
  return blocks.map((block) => blockText(block, form)).join('\n');
}

function blockText(block: Block, form: Form): string {
  if ('facts' in block) return factsText(block.facts);
  if ('table' in block) return tableText(block.table, form);
  if ('list' in block) return lines(block.list);
  if ('steps' in block) return stepsText(block.steps);
  if ('code' in block) return lines([block.title.toUpperCase(), ...block.code]);
  if (!('blocks' in block)) return lines([block.text]);
  const inner = block.blocks.map((one) => blockText(one, form)).join('');
  return lines([`${block.title}: ${block.text}`]) + inner.replace(/^(?=.)/gm, '  ');
}

function lines(texts: readonly string[]): string {
  return texts.map((text) => `${printable(text)}\n`).join('');
}

/** `Mode:      nftables`, one line each. */
export function factsText(facts: readonly Fact[]): string {
  const width = Math.max(...facts.map(([name]) => name.length)) + 1;
  return facts.map(([name, cell]) => `${`${name}:`.padEnd(width)}  ${shown(cell)}\n`).join('');
}

function tableText({ columns, rest, rows }: Table, form = standard): string {
  const isShown = columns.map(({ kind }) => {
    return form.wide || (kind !== 'wide' && kind !== 'terminal');
  });
  const table = rows.map((row) => row.filter((_, i) => isShown[i]));
  const heads = columns.filter((_, i) => isShown[i]).map(({ name }) => name.toUpperCase());
  return columnsText(form.headings ? [heads, ...table] : table) + lines(rest ? [rest] : []);
}

/**
 * Rows in columns as wide as their contents, except the last one. A cell is one line, whatever its
 * contents.
 */
export function columnsText(rows: readonly (readonly Cell[])[]): string {
  const texts = rows.map((row) => row.map((cell) => printable(plain(cell))));
  const widths = (texts[0] ?? []).map((_, i) => Math.max(...texts.map((row) => widthOf(row[i]!))));
  const padded = rows.map((row, r) =>
    row.map((cell, i) => {
      const missing = i === row.length - 1 ? 0 : widths[i]! - widthOf(texts[r]![i]!);
      return shown(cell) + ' '.repeat(missing);
    }),
  );
  return padded.map((cells) => `${cells.join('  ').trimEnd()}\n`).join('');
}

/** `1.  The packet is dropped.`, and below it the kernel object that drops it. */
export function stepsText(steps: readonly Step[]): string {
  const all = steps.flatMap(({ object, text }, i) => {
    return [`${`${i + 1}.`.padEnd(4)}${text}`, ...(object === undefined ? [] : [`    ${object}`])];
  });
  return lines(all);
}

function plain(cell: Cell): string {
  return partsOf(cell)
    .map((part) => (typeof part === 'object' ? textOf(part) : String(part)))
    .join(' ');
}

/** Printable text, in the colour of its tone if the terminal has colours. */
function shown(cell: Cell): string {
  return partsOf(cell)
    .map((part) => {
      if (typeof part !== 'object') return printable(String(part));
      const text = printable(textOf(part));
      return 'tone' in part && part.tone !== undefined ? toned(text, part.tone) : text;
    })
    .join(' ');
}

type Part = Exclude<Cell, undefined | readonly unknown[]>;

function partsOf(cell: Cell): readonly Part[] {
  if (cell === undefined) return [];
  return Array.isArray(cell) ? (cell as readonly Part[]) : [cell as Part];
}

function textOf(part: Exclude<Part, string | number>): string {
  return 'time' in part ? part.time : part.text;
}
