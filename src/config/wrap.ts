const columnsMax = 100;
/** A blank at which no line is broken. */
export const unbreakable = '\u00a0';

/** Breaks a text into lines that begin with `indent`. */
export function wrap(text: string, indent: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > columnsMax) {
      lines.push(indent + line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, indent + line].join('\n').replaceAll(unbreakable, ' ');
}
