/**
 * The format in which a node answers `kubectl fairlead`: lines of fields separated by tabs, in
 * printable ASCII, because shell and awk read them. The first line is `fairlead-report VERSION
 * RELEASE`, the last one `end`. Readers ignore lines whose first word they do not know, and take a
 * missing line as "unknown": so the plugin works with nodes of other releases. VERSION changes only
 * when a known line gets another meaning.
 */
import { fairleadVersion } from '../../../config/version.ts';
import { printable } from '../../printable.ts';

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
