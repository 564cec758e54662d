/** Finds objects in what people have: streams of documents, Lists, Helm values, texts in texts. */
import { child, type Problem, type Tree, type TreeMap, textAt } from '../../config/tree.ts';
import { decodeText, parseYamlStream, type YamlLimits } from '../../config/yaml.ts';

/** Room for `kubectl get -A -o yaml` of what holds configurations. */
const limits: YamlLimits = { bytesMax: 4 * 1024 * 1024, nodesMax: 1_000_000 };

/** Texts in texts in a text: a manifest in the cloud-init data of a List, for example. */
const depthMax = 4;

/** A mapping somewhere in a text. */
export interface Found {
  readonly tree: TreeMap;
  /** `config.conf of ConfigMap kube-system/kube-proxy`, `document 3 (line 41)`, `config (line 9)`. */
  readonly place: string;
  /** The key under which it, or the text that has it, stands; empty = none. */
  readonly key: string;
}

/** What a text has. */
interface Contents {
  /** The documents that can be read. */
  readonly documents: readonly Tree[];
  /** All mappings, outer ones before those in them. */
  readonly found: readonly Found[];
  readonly problems: readonly Problem[];
}

/** Texts within the text are searched, too, where `word` occurs in them. */
export function contentsOf(bytes: Uint8Array, word: string): Contents {
  const decoded = decodeText(bytes, limits);
  if (!decoded.ok) {
    return { documents: [], found: [], problems: [{ field: '', line: 0, text: decoded.error }] };
  }
  const search = new Search(decoded.text.split('\n'), word);
  for (const [index, { result }] of parseYamlStream(decoded.text, limits).entries()) {
    if (!result.ok) search.problems.push(...result.problems);
    else {
      search.documents.push(result.tree);
      search.tree(result.tree, index === 0 ? '' : `document ${index + 1}`, '', 0);
    }
  }
  return search;
}

class Search implements Contents {
  readonly documents: Tree[] = [];
  readonly found: Found[] = [];
  readonly problems: Problem[] = [];
  readonly #lines: readonly string[];
  readonly #word: string;

  constructor(lines: readonly string[], word: string) {
    this.#lines = lines;
    this.#word = word;
  }

  /** `owner`: the object or document around it; `key`: see Found. */
  tree(tree: Tree, owner: string, key: string, depth: number): void {
    if (tree.kind === 'list') {
      for (const item of tree.items) this.#value(item, item.line, owner, key, depth);
    }
    if (tree.kind !== 'map') return;
    const isOfObject = key !== '' && owner !== '';
    const place = isOfObject ? `${key} of ${owner}` : `${key || owner} (line ${tree.line})`;
    this.found.push({ tree, place: place.trim(), key });
    const within = nameOf(tree) ?? owner;
    for (const [name, { line, tree: value }] of tree.entries) {
      // Has the object once more, as it was applied.
      if (name !== 'annotations') this.#value(value, line, within, name, depth);
    }
  }

  /** `line`: where it is announced, by its key or the dash of a list. */
  #value(value: Tree, line: number, owner: string, key: string, depth: number): void {
    if (value.kind !== 'string') this.tree(value, owner, key, depth);
    else if (depth < depthMax && value.value.includes(this.#word)) {
      const above = '\n'.repeat(this.#isBlock(line) ? line : line - 1);
      for (const { result } of parseYamlStream(above + value.value, limits)) {
        if (result.ok) this.tree(result.tree, owner, key, depth + 1);
      }
    }
  }

  /** Whether the text that is announced in this line begins in the next one. */
  #isBlock(line: number): boolean {
    return /[|>][-+0-9]*\s*$/.test(this.#lines[line - 1] ?? '');
  }
}

/** `ConfigMap kube-system/kube-proxy`; undefined: the mapping is not an object with metadata. */
export function nameOf(tree: Tree): string | undefined {
  const metadata = child(tree, 'metadata')?.tree;
  const kind = textAt(tree, 'kind');
  if (kind === undefined || metadata === undefined) return undefined;
  const names = [textAt(metadata, 'namespace'), textAt(metadata, 'name')];
  return `${kind} ${names.filter((name) => name !== undefined).join('/')}`.trim();
}
