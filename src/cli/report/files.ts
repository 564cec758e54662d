/** The report of a bundle. */
import { ascii, type Line } from '../../serve/ask/report/lines.ts';
import type { BundleFile } from '../bundle/collect.ts';

/**
 * Each file's name, and its lines. A line of a file follows the word
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
