/** Makes text from other sources safe to display. */

/**
 * Characters that no name may send to a terminal or a log: controls, formats (which change the
 * direction of text), surrogates, unassigned ones, line and paragraph separators, spaces except
 * U+0020, invisible characters, and combining marks.
 */
const unprintable = /(?! )[\p{C}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}]/gu;
/** The same, except tabs and newlines of multi-line text. */
const unprintableInText = new RegExp(`(?![\\t\\n])${unprintable.source}`, 'gu');
const anyUnprintable = new RegExp(unprintable.source, 'u');

/** Characters as wide as two letters on a terminal: Han, Hangul, Kana, their forms, and emoji. */
const wideRanges = [
  ...[
    '\\u1100-\\u115f',
    '\\u2e80-\\ua4cf',
    '\\uac00-\\ud7a3',
    '\\uf900-\\ufaff',
    '\\ufe30-\\ufe6f',
  ],
  ...['\\uff00-\\uff60', '\\uffe0-\\uffe6', '\\p{Emoji_Presentation}', '\\u{20000}-\\u{3fffd}'],
];
const wide = new RegExp(`[${wideRanges.join('')}]`, 'gu');

/**
 * `text` with each character that is not printable as `\uXXXX`: a name must not move the cursor,
 * end a line or be invisible. In a JSON string the result has the same meaning.
 */
export function printable(text: string): string {
  return text.replace(unprintable, escaped);
}

/** The same for a text that may have several lines, and tabs. */
export function printableText(text: string): string {
  return text.replace(unprintableInText, escaped);
}

/** Whether `printable` would change the text. */
export function isPrintable(text: string): boolean {
  return !anyUnprintable.test(text);
}

/** The number of terminal columns of a printable text. */
export function widthOf(text: string): number {
  return [...text].length + (text.match(wide)?.length ?? 0);
}

/** `\uXXXX`, twice for a character with two UTF-16 units. */
function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}
