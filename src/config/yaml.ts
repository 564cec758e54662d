/** Reads YAML (and so JSON) into a Tree, within limits that a hostile file cannot get around. */
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  Scalar,
  type ScalarTag,
  type Tags,
} from 'yaml';
import { type Problem, shorten, type Tree, type TreeEntry } from './tree.ts';

/** A ConfigMap holds at most 1 MiB, so no configuration that works in a cluster is larger. */
const fileBytesMax = 1024 * 1024;
/** Nodes after aliases are followed; a whole KubeProxyConfiguration has about a hundred. */
const nodesMax = 20_000;
const depthMax = 50;
/** The first few syntax errors say what is wrong; the rest follow from them. */
const problemsMax = 5;
const tooDeep = `nested more than ${depthMax} levels deep`;

type YamlResult =
  | { readonly ok: true; readonly tree: Tree; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[] };

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
): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly error: string } {
  if (bytes.length > fileBytesMax) {
    return { ok: false, error: `the file has ${bytes.length} bytes; at most 1 MiB is read` };
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

/** Reads the first document of a YAML text. */
export function parseYaml(bytes: Uint8Array): YamlResult {
  const decoded = decodeText(bytes);
  if (!decoded.ok) return { ok: false, problems: [{ field: '', line: 0, text: decoded.error }] };
  try {
    return read(decoded.text);
  } catch (error) {
    // The parser and the walk below recurse; only a text that nests thousands deep gets here.
    if (error instanceof RangeError) {
      return { ok: false, problems: [{ field: '', line: 0, text: tooDeep }] };
    }
    if (!(error instanceof YamlError)) throw error;
    return { ok: false, problems: [{ field: '', line: error.line, text: error.message }] };
  }
}

/** Numbers in base 60, dates and the like are strings in kube-proxy's parser, too. */
function isSupportedTag(tag: Tags[number]): boolean {
  if (typeof tag === 'string') return true;
  const name = tag.tag.replace('tag:yaml.org,2002:', '');
  return tag.format !== 'TIME' && /^(?:map|seq|str|null|bool|int|float)$/.test(name);
}

/** Other notations that Go's strconv reads. */
const octal: ScalarTag = {
  tag: 'tag:yaml.org,2002:int',
  default: true,
  test: /^0o[0-7_]+$/,
  resolve: (text) => Number(text.replaceAll('_', '')),
};

function read(text: string): YamlResult {
  const lineCounter = new LineCounter();
  const documents = parseAllDocuments(text, {
    schema: 'yaml-1.1',
    customTags: (tags) => [...tags.filter(isSupportedTag), octal],
    merge: false,
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'silent',
    lineCounter,
  });
  const lineOf = (offset: number): number => lineCounter.linePos(offset).line;
  const document = Array.isArray(documents) ? documents[0] : undefined;
  if (document === undefined) return { ok: true, tree: { kind: 'null', line: 1 }, warnings: [] };
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
  const tree = new Walk(document, lineOf).tree(document.contents, 0);
  const warnings: Problem[] = [];
  const second = Array.isArray(documents) ? documents[1] : undefined;
  if (second) {
    const line = lineOf(second.range[0]);
    warnings.push({ field: '', line, text: 'only the first document of the file is read' });
  }
  return { ok: true, tree, warnings };
}

class Walk {
  private readonly document: Document;
  private readonly lineOf: (offset: number) => number;
  private nodes = 0;

  constructor(document: Document, lineOf: (offset: number) => number) {
    this.document = document;
    this.lineOf = lineOf;
  }

  tree(node: Node | null | undefined, depth: number, above = 1): Tree {
    const line = node?.range ? this.lineOf(node.range[0]) : above;
    this.nodes += 1;
    if (this.nodes > nodesMax) throw new YamlError(line, `more than ${nodesMax} values`);
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
    if (isMap(node)) return this.map(node.items as PairLike[], line, depth);
    throw new YamlError(line, 'not a value');
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
