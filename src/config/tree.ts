/**
 * The content of a YAML or JSON text, with the line of each value. Scalars are resolved as
 * kube-proxy's parser does it (YAML 1.1 without numbers in base 60). A repeated key keeps its last
 * value, and is listed.
 */
export type Tree =
  | { readonly kind: 'null'; readonly line: number }
  | { readonly kind: 'bool'; readonly line: number; readonly value: boolean }
  /** `text` as written; `value` is NaN or infinite when the text says so. */
  | {
      readonly kind: 'number';
      readonly line: number;
      readonly text: string;
      readonly value: number;
    }
  | { readonly kind: 'string'; readonly line: number; readonly value: string }
  | { readonly kind: 'list'; readonly line: number; readonly items: readonly Tree[] }
  | TreeMap;

export interface TreeMap {
  readonly kind: 'map';
  readonly line: number;
  readonly entries: ReadonlyMap<string, TreeEntry>;
  readonly duplicates: readonly { readonly key: string; readonly line: number }[];
}

export interface TreeEntry {
  /** Line of the key. */
  readonly line: number;
  readonly tree: Tree;
}

/** Something wrong, with where: `field` is a path (empty = the whole text), `line` 0 = unknown. */
export interface Problem {
  readonly field: string;
  readonly line: number;
  readonly text: string;
}

/** `iptables.syncPeriod (line 12): must be …`; parts that are unknown are left out. */
export function formatProblem(problem: Problem): string {
  const place = [problem.field, problem.line > 0 ? `(line ${problem.line})` : '']
    .filter((part) => part !== '')
    .join(' ');
  return place === '' ? problem.text : `${place}: ${problem.text}`;
}

/** The value in words, for errors: `the string "x"`, `a list`. */
export function describeTree(tree: Tree): string {
  switch (tree.kind) {
    case 'null':
      return 'nothing';
    case 'bool':
      return `the boolean ${tree.value}`;
    case 'number':
      return `the number ${shorten(tree.text)}`;
    case 'string':
      return `the string ${JSON.stringify(shorten(tree.value))}`;
    case 'list':
      return 'a list';
    case 'map':
      return 'a mapping';
  }
}

/** Keeps a line of an error readable when the value is a page long. */
export function shorten(text: string, charactersMax = 60): string {
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 3)}...`;
}

/** The entry under `key` when the tree is a mapping that has it with a value. */
export function child(tree: Tree | undefined, key: string): TreeEntry | undefined {
  if (tree?.kind !== 'map') return undefined;
  const entry = tree.entries.get(key);
  return entry === undefined || entry.tree.kind === 'null' ? undefined : entry;
}

/** Undefined when the map has no text under this key. */
export function textAt(tree: Tree | undefined, key: string): string | undefined {
  const found = child(tree, key)?.tree;
  return found?.kind === 'string' ? found.value : undefined;
}
