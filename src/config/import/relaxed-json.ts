/**
 * Reads JSON as people write it into API consoles: with comments and with commas after the last
 * member, both of which are reported as notes. Anything else that is not JSON is an error that
 * names its line, a missing comma above all.
 */
import { shorten, type Tree, type TreeEntry } from '../tree.ts';

type RelaxedJsonResult =
  | { readonly ok: true; readonly tree: Tree; readonly notes: readonly string[] }
  | { readonly ok: false; readonly line: number; readonly error: string };

/** A payload of this kind has three levels. */
const depthMax = 50;

class JsonError extends Error {
  readonly line: number;
  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

export function parseRelaxedJson(text: string): RelaxedJsonResult {
  const reader = new Reader(text);
  try {
    const tree = reader.document();
    return { ok: true, tree, notes: reader.notes() };
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    return { ok: false, line: error.line, error: error.message };
  }
}

class Reader {
  private readonly text: string;
  private at = 0;
  private line = 1;
  private readonly commentLines = new Set<number>();
  private readonly trailingCommaLines = new Set<number>();

  constructor(text: string) {
    this.text = text;
  }

  document(): Tree {
    const tree = this.value(0);
    this.skip();
    if (this.at < this.text.length) this.fail(`${this.shown()} stands after the end of the JSON`);
    return tree;
  }

  notes(): string[] {
    const lines = (set: ReadonlySet<number>): string => [...set].join(', ');
    const notes: string[] = [];
    if (this.commentLines.size > 0) {
      notes.push(
        `comments, which JSON does not have, were skipped (line ${lines(this.commentLines)})`,
      );
    }
    if (this.trailingCommaLines.size > 0) {
      const where = lines(this.trailingCommaLines);
      notes.push(
        `a comma after the last member, which JSON does not allow, was skipped (line ${where})`,
      );
    }
    return notes;
  }

  private value(depth: number): Tree {
    this.skip();
    if (depth > depthMax) this.fail(`nested more than ${depthMax} levels deep`);
    const { line } = this;
    const next = this.text[this.at];
    if (next === '{') return this.object(depth, line);
    if (next === '[') return this.array(depth, line);
    if (next === '"') return { kind: 'string', line, value: this.string() };
    const word = /[-+.\w]+/y;
    word.lastIndex = this.at;
    const text = word.exec(this.text)?.[0] ?? '';
    this.at += text.length;
    if (text === 'true' || text === 'false') return { kind: 'bool', line, value: text === 'true' };
    if (text === 'null') return { kind: 'null', line };
    if (/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/.test(text)) {
      return { kind: 'number', line, text, value: Number(text) };
    }
    this.at -= text.length;
    return this.fail(`a value is expected, but ${this.shown()} stands there`);
  }

  private object(depth: number, line: number): Tree {
    const entries = new Map<string, TreeEntry>();
    const duplicates: { key: string; line: number }[] = [];
    this.members('}', () => {
      if (this.text[this.at] !== '"') {
        this.fail(`a name in double quotes is expected, but ${this.shown()} stands there`);
      }
      const keyLine = this.line;
      const key = this.string();
      this.skip();
      if (this.text[this.at] !== ':') {
        this.fail(`a colon is missing after "${shorten(key)}", before ${this.shown()}`);
      }
      this.at += 1;
      if (entries.has(key)) duplicates.push({ key, line: keyLine });
      entries.set(key, { line: keyLine, tree: this.value(depth + 1) });
      return `the value of "${shorten(key)}"`;
    });
    return { kind: 'map', line, entries, duplicates };
  }

  private array(depth: number, line: number): Tree {
    const items: Tree[] = [];
    this.members(']', () => {
      items.push(this.value(depth + 1));
      return `item ${items.length - 1} of the list`;
    });
    return { kind: 'list', line, items };
  }

  /** What stands between brackets: members with commas between them. `read` names the member. */
  private members(close: string, read: () => string): void {
    const openLine = this.line;
    this.at += 1;
    for (let before = '', separated = true; ; ) {
      this.skip();
      const next = this.text[this.at];
      if (next === undefined) this.fail(`the text ends within the brackets of line ${openLine}`);
      if (next === close) {
        this.at += 1;
        return;
      }
      if (!separated) this.fail(`a comma is missing after ${before}, before ${this.shown()}`);
      before = read();
      this.skip();
      separated = this.text[this.at] === ',';
      if (separated) this.comma(close);
    }
  }

  private comma(close: string): void {
    const { line } = this;
    this.at += 1;
    this.skip();
    if (this.text[this.at] === close) this.trailingCommaLines.add(line);
    if (this.text[this.at] === ',') this.fail('two commas stand in a row');
  }

  private string(): string {
    const form = /"(?:[^"\\\n]|\\[^\n])*"/y;
    form.lastIndex = this.at;
    const raw = form.exec(this.text)?.[0];
    if (raw === undefined) return this.fail('a closing double quote is missing');
    this.at += raw.length;
    try {
      return JSON.parse(raw) as string;
    } catch {
      return this.fail(`${shorten(raw)} has an escape or a character that JSON does not know`);
    }
  }

  /** Blanks and comments. */
  private skip(): void {
    const blank = /\s+|\/\/[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\//y;
    for (;;) {
      blank.lastIndex = this.at;
      const match = blank.exec(this.text)?.[0];
      if (match === undefined) return;
      if (match.trim() !== '') this.commentLines.add(this.line);
      this.at += match.length;
      this.line += match.split('\n').length - 1;
    }
  }

  /** What stands at the reader's place, for an error. */
  private shown(): string {
    if (this.at >= this.text.length) return 'the end of the text';
    const word = /"[^"\n]*"?|[\w.-]+|\S/y;
    word.lastIndex = this.at;
    return shorten(word.exec(this.text)?.[0] ?? this.text[this.at] ?? '');
  }

  private fail(message: string): never {
    throw new JsonError(this.line, message);
  }
}
