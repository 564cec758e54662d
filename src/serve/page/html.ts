import { isPrintable, printableText } from '../printable.ts';

/** HTML that is safe to send: its contents are escaped, unless they are HTML of this class. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Values that may be inserted into HTML; undefined inserts nothing. */
export type Content = Html | string | number | undefined | readonly Content[];

/** Escapes contents for text between tags, and for attributes in double quotes. */
export function html(parts: TemplateStringsArray, ...contents: readonly Content[]): Html {
  let text = parts[0]!;
  for (let i = 0; i < contents.length; i += 1) text += write(contents[i]) + parts[i + 1]!;
  return new Html(text);
}

/** Like `html`, but the texts follow one another: a long one is not copied into a longer one. */
export function textsOf(parts: TemplateStringsArray, ...contents: readonly Content[]): string[] {
  const texts = [parts[0]!];
  for (let i = 0; i < contents.length; i += 1) {
    add(texts, contents[i]);
    texts.push(parts[i + 1]!);
  }
  return texts;
}

function add(texts: string[], content: Content): void {
  if (content instanceof Html || typeof content !== 'object') texts.push(write(content));
  else for (const part of content) add(texts, part);
}

function write(content: Content): string {
  if (content instanceof Html) return content.text;
  if (content === undefined) return '';
  if (typeof content === 'string' || typeof content === 'number') return escaped(String(content));
  let text = '';
  for (const part of content) text += write(part);
  return text;
}

const special = /[&<>"']/;

/** Names of others must not change the direction of text either. */
function escaped(text: string): string {
  // Most texts have none, and a search takes less than a replacement of nothing.
  if (!special.test(text) && isPrintable(text)) return text;
  return printableText(text).replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);
}
