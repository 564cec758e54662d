/** Reads YAML (and so JSON) into a Tree, within limits that a hostile file cannot get around. */
import {
  type Document,
  isAlias,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  Scalar,
} from 'yaml';
import { excessOfAliases, yamlOptions } from '../net/yaml.ts';
import { type Problem, shorten, type Tree, type TreeEntry } from './tree.ts';

const depthMax = 50;
/** The first few syntax errors say what is wrong; the rest follow from them. */
const problemsMax = 5;
const tooDeep = `nested more than ${depthMax} levels deep`;

type YamlResult =
  | { readonly ok: true; readonly tree: Tree; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** What is read of a text. */
export interface YamlLimits {
  readonly bytesMax: number;
  /** Nodes of a document after aliases are followed. */
  readonly nodesMax: number;
}

/**
 * Of a configuration: a ConfigMap holds at most 1 MiB, so none that works in a cluster is larger,
 * and a whole KubeProxyConfiguration has about a hundred nodes.
 */
const configurationLimits: YamlLimits = { bytesMax: 1024 * 1024, nodesMax: 20_000 };

class YamlError extends Error {
  readonly line: number;
  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

/** The text of a file, or what keeps it from being one (too large, not UTF-8, binary). */
export function decodeText(
  bytes: Uint8Array,
  { bytesMax }: YamlLimits = configurationLimits,
): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly error: string } {
  if (bytes.length > bytesMax) {
    const most = `at most ${bytesMax / 1024 ** 2} MiB is read`;
    return { ok: false, error: `the file has ${bytes.length} bytes; ${most}` };
  }
  const binary = { ok: false, error: 'the file is binary, not a text in UTF-8' } as const;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/.test(text) ? binary : { ok: true, text };
  } catch {
    return binary;
  }
}

/** Reads the first document of a YAML text, as a start does. */
export function parseYaml(bytes: Uint8Array): YamlResult {
  const decoded = decodeText(bytes);
  if (!decoded.ok) return failed(0, decoded.error);
  const [first, second] = parseYamlStream(decoded.text);
  if (first === undefined) return { ok: true, tree: { kind: 'null', line: 1 }, warnings: [] };
  if (!first.result.ok || second === undefined) return first.result;
  const text = 'only the first document of the file is read';
  const warnings = [{ field: '', line: second.line, text }];
  return { ...first.result, warnings };
}

/** A document of a YAML text, with its first line. A wrong one does not affect the others. */
interface YamlDocument {
  readonly line: number;
  readonly result: YamlResult;
}

/** All documents of a YAML text. */
export function parseYamlStream(
  text: string,
  { nodesMax }: YamlLimits = configurationLimits,
): readonly YamlDocument[] {
  const lineCounter = new LineCounter();
  const lineOf = (offset: number): number => lineCounter.linePos(offset).line;
  let documents: ReturnType<typeof parseAllDocuments>;
  try {
    documents = parseAllDocuments(text, { ...yamlOptions, merge: false, lineCounter });
  } catch (error) {
    return [{ line: 1, result: failedBy(error) }];
  }
  if (!Array.isArray(documents)) return [];
  return documents.map((document) => {
    const line = lineOf(document.range?.[0] ?? 0);
    try {
      return { line, result: asTemplate(read(document, text, lineOf, nodesMax), text) };
    } catch (error) {
      return { line, result: asTemplate(failedBy(error), text) };
    }
  });
}

function failed(line: number, text: string): YamlResult {
  return { ok: false, problems: [{ field: '', line, text }] };
}

/** What is wrong with a template follows from its placeholders. */
function asTemplate(result: YamlResult, text: string): YamlResult {
  const placeholder = result.ok ? undefined : placeholderIn(text);
  if (placeholder === undefined) return result;
  return failed(placeholder.line, `is a template, with ${placeholder.found}: render it first`);
}

/** The parser and the walk below recurse: a text that nests thousands deep overflows the stack. */
function failedBy(error: unknown): YamlResult {
  if (error instanceof RangeError) return failed(0, tooDeep);
  if (!(error instanceof YamlError)) throw error;
  return failed(error.line, error.message);
}

/** What templates of Helm and Go, of Jinja, and of shells put in place of values. */
const placeholder = /\{\{.*?\}\}|\{%.*?%\}|\$\{\w+\}/;

interface Placeholder {
  readonly line: number;
  readonly found: string;
}

/** The first line with a placeholder, if the text is a template; comments do not count. */
export function placeholderIn(text: string): Placeholder | undefined {
  for (const [index, line] of text.split('\n').entries()) {
    const found = placeholder.exec(line.replace(/(?:^|\s)#.*$/, ''))?.[0];
    if (found !== undefined) return { line: index + 1, found };
  }
  return undefined;
}

function read(
  document: Document,
  text: string,
  lineOf: (offset: number) => number,
  nodesMax: number,
): YamlResult {
  if (document.errors.length > 0) {
    const lines = text.split('\n');
    const problems = document.errors.slice(0, problemsMax).map((error) => {
      const line = lineOf(error.pos[0]);
      const shown = shorten((lines[line - 1] ?? '').trim());
      const place = shown === '' ? '' : `, at: ${shown}`;
      return { field: '', line, text: `yaml: ${error.message}${place}` };
    });
    // The parser reports its own stack overflow as one more syntax error.
    if (document.errors.some((error) => error.message.includes('call stack'))) {
      throw new YamlError(0, tooDeep);
    }
    return { ok: false, problems };
  }
  const excess = excessOfAliases(document);
  if (excess !== undefined) throw new YamlError(0, excess);
  const tree = new Walk(document, lineOf, nodesMax).tree(document.contents, 0);
  return { ok: true, tree, warnings: [] };
}

class Walk {
  private readonly document: Document;
  private readonly lineOf: (offset: number) => number;
  private readonly nodesMax: number;
  private nodes = 0;

  constructor(document: Document, lineOf: (offset: number) => number, nodesMax: number) {
    this.document = document;
    this.lineOf = lineOf;
    this.nodesMax = nodesMax;
  }

  tree(node: Node | null | undefined, depth: number, above = 1): Tree {
    const line = node?.range ? this.lineOf(node.range[0]) : above;
    this.nodes += 1;
    if (this.nodes > this.nodesMax) throw new YamlError(line, `more than ${this.nodesMax} values`);
    if (depth > depthMax) throw new YamlError(line, tooDeep);
    if (node === null || node === undefined) return { kind: 'null', line };
    if (isAlias(node)) {
      const target = node.resolve(this.document);
      if (!target) throw new YamlError(line, `unknown anchor "${node.source}"`);
      return this.tree(target, depth + 1, line);
    }
    if (isScalar(node)) return scalarTree(node, line);
    if (isSeq(node)) {
      const items = node.items.map((item) => this.tree(item as Node | null, depth + 1, line));
      return { kind: 'list', line, items };
    }
    return this.map(node.items as PairLike[], line, depth);
  }

  private map(pairs: readonly PairLike[], line: number, depth: number): Tree {
    const entries = new Map<string, TreeEntry>();
    const merged = new Map<string, TreeEntry>();
    const duplicates: { key: string; line: number }[] = [];
    for (const pair of pairs) {
      const key = this.key(pair.key, line);
      const tree = this.tree(pair.value, depth + 1, key.line);
      if (key.merges) this.merge(tree, merged);
      else {
        if (entries.has(key.text)) duplicates.push({ key: key.text, line: key.line });
        entries.set(key.text, { line: key.line, tree });
      }
    }
    for (const [name, entry] of merged) if (!entries.has(name)) entries.set(name, entry);
    return { kind: 'map', line, entries, duplicates };
  }

  /** `<<: *anchor` and `<<: [*one, *two]`: what is there already wins. */
  private merge(tree: Tree, into: Map<string, TreeEntry>): void {
    for (const part of tree.kind === 'list' ? tree.items : [tree]) {
      if (part.kind !== 'map') throw new YamlError(part.line, '<< needs a mapping');
      for (const [name, entry] of part.entries) if (!into.has(name)) into.set(name, entry);
    }
  }

  private key(node: Node | null, above: number): { text: string; line: number; merges: boolean } {
    const target = isAlias(node) ? node.resolve(this.document) : node;
    const line = node?.range ? this.lineOf(node.range[0]) : above;
    if (!isScalar(target)) throw new YamlError(line, 'a key must be a plain word');
    const text = target.source ?? '';
    return { text, line, merges: text === '<<' && target.type === Scalar.PLAIN };
  }
}

interface PairLike {
  readonly key: Node | null;
  readonly value: Node | null;
}

/** Gives a scalar its type, which its tag or the schema has found. */
function scalarTree({ value, source = '' }: Scalar, line: number): Tree {
  if (value === null) return { kind: 'null', line };
  if (typeof value === 'boolean') return { kind: 'bool', line, value };
  if (typeof value === 'number') return { kind: 'number', line, text: source, value };
  return { kind: 'string', line, value: String(value) };
}
