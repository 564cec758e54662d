/**
 * Splits text into words as a shell does: blanks between them, quotes around blanks, a backslash
 * before a character or a line end, comments to the end of the line. Nothing is expanded.
 */
export function splitWords(text: string): string[] {
  const part = /\\\r?\n|\\([\s\S])|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|(\s+)|([\s\S])/y;
  const words: string[] = [];
  let word: string | undefined;
  const end = (): void => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  for (let match = part.exec(text); match; match = part.exec(text)) {
    const [, escaped, single, double, blank, plain] = match;
    if (blank !== undefined) end();
    else if (plain === '#' && word === undefined) {
      part.lastIndex = (text.indexOf('\n', part.lastIndex) + 1 || text.length + 1) - 1;
    } else {
      const added = escaped ?? single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? plain;
      if (added !== undefined) word = (word ?? '') + added;
    }
  }
  end();
  return words;
}
