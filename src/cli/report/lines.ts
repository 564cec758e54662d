/**
 * The format in which a node answers `kubectl fairlead`: lines of fields separated by tabs, in
 * printable ASCII, because shell and awk read them. The first line is `fairlead-report VERSION
 * RELEASE`, the last one `end`. Readers ignore lines whose first word they do not know, and take a
 * missing line as "unknown": so the plugin works with nodes of other releases. VERSION changes only
 * when a known line gets another meaning.
 */
import { fairleadVersion } from '../../config/version.ts';
import { printable } from '../../serve/printable.ts';
import type { BundleFile } from '../bundle/collect.ts';

const reportVersion = '1';

export type Line = readonly (string | number)[];

/** The longest field: a sentence. */
const fieldMax = 500;

const plainForms: Readonly<Record<string, string>> = { '’': "'", '…': '...', '–': '-' };

/** Characters outside ASCII become `\uXXXX`: the program that prints them may not support UTF-8. */
export function ascii(text: string): string {
  return printable(text).replace(/[^ -~]/g, (unit) => {
    return plainForms[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** An empty field is `-`: with some settings awk takes several tabs as one. */
function field(value: string | number): string {
  const text = ascii(String(value)).slice(0, fieldMax);
  return text === '' ? '-' : text;
}

export function reportText(lines: readonly Line[]): string {
  const all = [['fairlead-report', reportVersion, fairleadVersion], ...lines, ['end']];
  return all.map((line) => `${line.map(field).join('\t')}\n`).join('');
}

/**
 * The report of a bundle: each file's name, and its lines. A line of a file follows the word
 * `text`. Long lines are split: all parts but the last are `part`.
 */
export function fileLines(files: readonly BundleFile[]): Line[] {
  return files.flatMap(({ name, text }) => [
    ['file', name],
    ...text.trimEnd().split('\n').flatMap(pieces),
  ]);
}

const pieceMax = 400;

function pieces(text: string): Line[] {
  const whole = ascii(text.replaceAll('\t', '        '));
  const lines: Line[] = [];
  let at = 0;
  for (; whole.length - at > pieceMax; at += pieceMax) {
    lines.push(['part', whole.slice(at, at + pieceMax)]);
  }
  return [...lines, ['text', whole.slice(at)]];
}
