/** Text from elsewhere, made safe to look at. */

/** Controls, formats (they turn the direction of text), surrogates, line and paragraph ends. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu;

/**
 * `text` with each character that is not printable as `\uXXXX`: a name must not move the cursor,
 * end a line or hide. Within a string of JSON the result means the same.
 */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => {
    const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
  });
}
