/** Text from elsewhere, made safe to look at. */

/**
 * What no name may bring to a terminal or a log: controls, formats (they turn the direction of
 * text), surrogates, what is not assigned, line and paragraph ends, blanks that are not the common
 * one, what shows nothing, and marks that are drawn over other characters.
 */
const unprintable = /(?! )[\p{C}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}]/gu;
/** The same, but for the tabs and newlines of a text of several lines. */
const unprintableInText = new RegExp(`(?![\\t\\n])${unprintable.source}`, 'gu');
const anyUnprintable = new RegExp(unprintable.source, 'u');

/** What is as wide as two letters on a terminal: Han, Hangul, Kana, their forms, and emoji. */
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
 * end a line or hide. Within a string of JSON the result means the same.
 */
export function printable(text: string): string {
  return text.replace(unprintable, escaped);
}

/** The same for a text that may have several lines, and tabs. */
export function printableText(text: string): string {
  return text.replace(unprintableInText, escaped);
}

/** Whether `printable` would change it. */
export function isPrintable(text: string): boolean {
  return !anyUnprintable.test(text);
}

/** How many columns of a terminal a printable text takes. */
export function widthOf(text: string): number {
  return [...text].length + (text.match(wide)?.length ?? 0);
}

/** `\uXXXX`, twice where the character has two units of UTF-16. */
function escaped(character: string): string {
  const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}
