/** A recorded terminal session as an SVG whose lines appear when they did. */
import { stripVTControlCharacters } from 'node:util';

export interface RecordedLine {
  /** Seconds since the start. */
  readonly atSeconds: number;
  /** With the escape sequences of colours. */
  readonly text: string;
}

const columnPx = 7.3;
const rowPx = 17;
const marginPx = 14;

/** Numbers of SGR sequences that are drawn; 0, 22 and 39 end them. */
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

/** `command` stands in the first line, as it was typed. */
export function terminalSvg(command: string, lines: readonly RecordedLine[]): string {
  const all = [{ atSeconds: 0, text: `$ ${command}` }, ...lines].map(({ atSeconds, text }) => {
    return { atSeconds, text: text.replaceAll('\t', '    ') };
  });
  const columns = Math.max(...all.map(({ text }) => stripVTControlCharacters(text).length));
  const width = Math.ceil(columns * columnPx + 2 * marginPx);
  const height = all.length * rowPx + 2 * marginPx;
  let style: string | undefined;
  const drawn = all.map(({ atSeconds, text }, row) => {
    const pieces = text.split(sequence).map((piece) => {
      if (!piece.startsWith(escapeCode)) return piece === '' ? '' : span(piece, style);
      // It holds until another one comes, in later lines too.
      style = styles[Number.parseInt(piece.slice(2), 10)];
      return '';
    });
    const y = marginPx + (row + 0.75) * rowPx;
    const delay = `animation-delay:${atSeconds.toFixed(2)}s`;
    return `<text x="${marginPx}" y="${y}" style="${delay}">${pieces.join('')}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 ${width} ${height}" width="${width}">
<style>
rect { fill: #14171c }
text { font: 12px monospace; fill: #d6dae0; animation: show 0.01s both }
.b { font-weight: bold } .d { fill: #9097a3 } .r { fill: #f26d6d } .g { fill: #7ccf7c }
.u { fill: #6ca6f0 } .c { fill: #63c5cf }
@keyframes show { from { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { text { animation: none } }
</style>
<rect width="${width}" height="${height}" rx="6"/>
${drawn.join('\n')}
</svg>
`;
}

/** Text in a colour, which shows its blanks. */
function span(text: string, style: string | undefined): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return style === undefined ? escaped : `<tspan class="${style}">${escaped}</tspan>`;
}
