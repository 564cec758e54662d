/**
 * The form in which a node answers `kubectl fairlead`: lines of fields with tabs between them, in
 * printable ASCII, because shell and awk read them. The first line is
 * `fairlead-report VERSION RELEASE`, the last one `end`. Readers ignore lines whose first word they
 * do not know, and take a line that is missing for "unknown": so the plugin and nodes of other
 * releases work together. VERSION changes only when a known line gets another meaning.
 */
import { fairleadVersion } from '../../config/version.ts';
import { printable } from '../../serve/printable.ts';

export const reportVersion = '1';

export type Line = readonly (string | number)[];

/** The longest field: a sentence. */
const fieldMax = 500;

const plainForms: Readonly<Record<string, string>> = { '’': "'", '…': '...', '–': '-' };

/** Letters outside ASCII become `\uXXXX`: what prints them may not know UTF-8. */
export function ascii(text: string): string {
  return printable(text).replace(/[^ -~]/g, (unit) => {
    return plainForms[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** An empty field is `-`: awk takes several tabs for one with some settings. */
function field(value: string | number): string {
  const text = ascii(String(value)).slice(0, fieldMax);
  return text === '' ? '-' : text;
}

export function reportText(lines: readonly Line[]): string {
  const all = [['fairlead-report', reportVersion, fairleadVersion], ...lines, ['end']];
  return all.map((line) => `${line.map(field).join('\t')}\n`).join('');
}
