/** Draws pictures of rows of boxes, with arrows between the boxes of a row, as SVG. */

/** Fits into its width if no text has more than 19 characters. */
export interface Box {
  readonly title: string;
  readonly lines: readonly string[];
}

export interface Row {
  readonly name: string;
  readonly boxes: readonly Box[];
  /** Stands at the right end of the row, above the last box. */
  readonly result: string;
  /** Whether its boxes are green. */
  readonly isOurs: boolean;
}

const boxWidthPx = 152;
const boxHeightPx = 74;
const gapPx = 28;
const marginPx = 16;
const rowHeightPx = 150;
/** Wide enough for a character in the widest of usual fonts at this size. */
const characterPx = 7.4;

/** Throws when a text is wider than its box. */
export function svgOfRows(title: string, rows: readonly Row[]): string {
  const columns = Math.max(...rows.map(({ boxes }) => boxes.length));
  const width = 2 * marginPx + columns * boxWidthPx + (columns - 1) * gapPx;
  const height = 2 * marginPx + rows.length * rowHeightPx - 24;
  const drawn = rows.map((row, index) => drawRow(row, marginPx + index * rowHeightPx));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" role="img">
<title>${title}</title>
<style>
text { font: 12px sans-serif; fill: #1f2933 } .n { font-weight: bold; font-size: 14px }
.t { font-weight: bold } .q { fill: #52606d } .e { font-style: italic; fill: #52606d }
.p { fill: #ffffff } .b { fill: #f5f7fa; stroke: #9aa5b1 } .f { fill: #e3f8ec; stroke: #3ebd80 }
path { fill: none; stroke: #7b8794; stroke-width: 1.5 }
</style>
<rect class="p" width="${width}" height="${height}" rx="6"/>
${drawn.join('\n')}
</svg>
`;
}

function drawRow({ name, boxes, result, isOurs }: Row, topPx: number): string {
  const style = isOurs ? 'f' : 'b';
  const y = topPx + 26;
  const pieces = boxes.map((box, i) => {
    const x = marginPx + i * (boxWidthPx + gapPx);
    return `${i === 0 ? '' : arrow(x - gapPx, y + boxHeightPx / 2)}${boxAt(box, style, x, y)}`;
  });
  const end = marginPx + boxes.length * boxWidthPx + (boxes.length - 1) * gapPx;
  return [
    `<text class="n" x="${marginPx}" y="${topPx + 14}">${name}</text>`,
    `<text class="e" x="${end}" y="${topPx + 14}" text-anchor="end">${result}</text>`,
    ...pieces,
  ].join('\n');
}

function boxAt({ title, lines }: Box, style: string, x: number, y: number): string {
  const longest = Math.max(title.length, ...lines.map(({ length }) => length));
  if (longest * characterPx > boxWidthPx - 8) throw new Error(`${title}: text wider than its box`);
  const middle = x + boxWidthPx / 2;
  const texts = [title, ...lines].map((text, i) => {
    const baseline = y + 22 + i * 19;
    const kind = i === 0 ? 't' : 'q';
    return `<text class="${kind}" x="${middle}" y="${baseline}" text-anchor="middle">${text}</text>`;
  });
  const shape = `<rect class="${style}" x="${x}" y="${y}" width="${boxWidthPx}" height="${boxHeightPx}" rx="5"/>`;
  return [shape, ...texts].join('\n');
}

function arrow(x: number, y: number): string {
  const end = x + gapPx - 4;
  return `<path d="M${x + 4} ${y}H${end}m-6 -4l6 4l-6 4"/>\n`;
}
