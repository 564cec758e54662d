/** Draws what a command printed in a terminal as an SVG. */
import { stripVTControlCharacters } from 'node:util';

const columnPx = 7.3;
const rowPx = 17;
const marginPx = 14;

/** CSS classes of the SGR numbers that are drawn. All other numbers end the style. */
const styles: Readonly<Record<number, string>> = {
  1: 'b',
  2: 'd',
  31: 'r',
  32: 'g',
  34: 'u',
  36: 'c',
};

const escapeCode = '\u001b';
/** `ESC [ 32 m` */
const sequence = new RegExp(`(${escapeCode}\\[\\d*m)`);

/** The SVG: `command` after a prompt, then lines with their escape sequences for colours. */
export function terminalSvg(command: string, lines: readonly string[]): string {
  const all = [`$ ${command}`, ...lines].map((text) => text.replaceAll('\t', '    '));
  const columns = Math.max(...all.map((text) => stripVTControlCharacters(text).length));
  const width = Math.ceil(columns * columnPx + 2 * marginPx);
  const height = all.length * rowPx + 2 * marginPx;
  let style: string | undefined;
  const drawn = all.map((text, row) => {
    const pieces = text.split(sequence).map((piece) => {
      if (!piece.startsWith(escapeCode)) return piece === '' ? '' : span(piece, style);
      // A style holds until the next sequence, also in later lines.
      style = styles[Number.parseInt(piece.slice(2), 10)];
      return '';
    });
    const y = marginPx + (row + 0.75) * rowPx;
    return `<text x="${marginPx}" y="${y}">${pieces.join('')}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}">
<style>
rect { fill: #14171c }
text { font: 12px monospace; white-space: pre; fill: #d6dae0 }
.b { font-weight: bold } .d { fill: #9097a3 } .r { fill: #f26d6d } .g { fill: #7ccf7c }
.u { fill: #6ca6f0 } .c { fill: #63c5cf }
</style>
<rect width="${width}" height="${height}" rx="6"/>
${drawn.join('\n')}
</svg>
`;
}

/** The text as a tspan with its style. Without one it is plain text. */
function span(text: string, style: string | undefined): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return style === undefined ? escaped : `<tspan class="${style}">${escaped}</tspan>`;
}
