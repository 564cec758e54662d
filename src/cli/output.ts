/** `-o`: in which form a command prints what it has found. */
import { Document, visit } from 'yaml';
import { isPrintable, printable, widthOf } from '../serve/printable.ts';

export const outputs = ['text', 'json', 'yaml'] as const;
export type Output = (typeof outputs)[number];

export type TakenOutput =
  | { readonly ok: true; readonly output: Output; readonly rest: readonly string[] }
  | { readonly ok: false; readonly reason: string };

/** Takes `-o FORM`, `-oFORM`, `--output FORM` and `--output=FORM` out of the arguments. */
export function takeOutput(args: readonly string[]): TakenOutput {
  let output: string = 'text';
  const rest: string[] = [];
  for (let i = 0; i < args.length; i += 1) {
    const word = args[i]!;
    const joined = /^(?:-o=?|--output=)(.+)$/.exec(word)?.[1];
    if (word === '-o' || word === '--output') {
      i += 1;
      output = args[i] ?? '';
    } else if (joined === undefined) rest.push(word);
    else output = joined;
  }
  const known = outputs.find((one) => one === output);
  if (known !== undefined) return { ok: true, output: known, rest };
  return { ok: false, reason: `-o must be one of ${outputs.join(', ')}, not "${output}"` };
}

/** `text` says in lines what `value` says to programs. */
export function formatOutput(output: Output, value: unknown, text: () => string): string {
  switch (output) {
    case 'text':
      return text();
    case 'json':
      return `${JSON.stringify(value, null, 2)}\n`;
    case 'yaml':
      return toYAML(value);
  }
}

/**
 * As YAML in printable characters that mean the same to every reader: strings with others are in
 * double quotes, which know escapes.
 */
export function toYAML(value: unknown): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value !== 'string' || isPrintable(node.value)) return;
      node.value = node.value.toWellFormed();
      node.type = 'QUOTE_DOUBLE';
    },
  });
  const text = document.toString({ lineWidth: 0 });
  // Outside the Basic Multilingual Plane, YAML has no pairs of escapes.
  return text.replace(/[\u{10000}-\u{10ffff}]/gu, (character) => {
    if (isPrintable(character)) return character;
    return `\\U${character.codePointAt(0)!.toString(16).padStart(8, '0')}`;
  });
}

/**
 * Rows in columns that are as wide as what is in them; the last one is as long as it likes. A cell
 * is one line, whatever is in it.
 */
export function columns(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(printable));
  const widths = (cells[0] ?? []).map((_, i) => Math.max(...cells.map((row) => widthOf(row[i]!))));
  const lines = cells.map((row) => {
    const padded = row.map((cell, i) => {
      return i === row.length - 1 ? cell : cell + ' '.repeat(widths[i]! - widthOf(cell));
    });
    return `${padded.join('  ').trimEnd()}\n`;
  });
  return lines.join('');
}
