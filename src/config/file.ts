/**
 * Decodes a KubeProxyConfiguration file (behaviour document 2.1). Unknown and repeated fields are
 * accepted with a warning, as kube-proxy does; everything else that is wrong is an error, and all
 * errors are found in one go.
 */
import { isDeepStrictEqual } from 'node:util';
import { quote } from './go-values.ts';
import { type FieldPath, fieldPaths, type GivenSettings, settingTable } from './settings/index.ts';
import { nearest } from './spelling.ts';
import {
  describeTree,
  formatProblem,
  type Problem,
  shorten,
  type Tree,
  type TreeEntry,
  type TreeMap,
} from './tree.ts';
import { rulesOfType } from './types.ts';
import { apiVersion, kind, settingsFrom } from './values.ts';
import { parseYaml } from './yaml.ts';

interface DecodedFile {
  readonly ok: true;
  /** Fields that the file gives; null and zero values that mean "default" are left out. */
  readonly given: GivenSettings;
  readonly locate: Locate;
  readonly warnings: readonly string[];
}

/** Where a setting is given, or the entry with this key of a setting that is a mapping. */
export type Locate = (setting: FieldPath, entry?: string) => Pick<Problem, 'field' | 'line'>;

export type FileResult = DecodedFile | UnreadableFile;

export interface UnreadableFile {
  readonly ok: false;
  /** One line in kube-proxy's words. */
  readonly text: string;
  /** What is wrong where. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** The fields that could be read; undefined where the file has none. */
  readonly rest?: Omit<DecodedFile, 'ok' | 'warnings'>;
}

/** More unknown fields than this are counted, not listed. */
const listedMax = 20;

/** `file`: its bytes, or the configuration that a tool has found in one. */
export function decodeFile(file: Uint8Array | TreeMap): FileResult {
  const parsed =
    file instanceof Uint8Array ? parseYaml(file) : { ok: true as const, tree: file, warnings: [] };
  if (!parsed.ok) return failed(parsed.problems);
  const wrongKind = checkKind(parsed.tree);
  if (wrongKind) return failed([wrongKind]);
  const decoder = new Decoder();
  decoder.section(parsed.tree as TreeMap, '');
  const locate: Locate = (field, entry) => {
    const line = decoder.lines.get(`${field}.${entry}`) ?? decoder.lines.get(field) ?? 0;
    return { field, line };
  };
  const read = { given: settingsFrom(decoder.values), locate };
  const warnings = [...parsed.warnings.map(formatProblem), ...decoder.leniencies()];
  if (decoder.problems.length > 0) return { ...failed(decoder.problems), warnings, rest: read };
  return { ok: true, ...read, warnings };
}

function failed(problems: readonly Problem[]): UnreadableFile {
  return {
    ok: false,
    text: `failed to decode: ${problems.map(formatProblem).join(', ')}`,
    problems,
    warnings: [],
  };
}

function checkKind(tree: Tree): Problem | undefined {
  if (tree.kind === 'null') {
    return {
      field: '',
      line: 0,
      text: 'the file is empty; no kind "KubeProxyConfiguration" in it',
    };
  }
  if (tree.kind !== 'map') {
    const text = `no kind in it: the file must be a mapping, not ${describeTree(tree)}`;
    return { field: '', line: tree.line, text };
  }
  return checkWord(tree, 'kind', kind) ?? checkWord(tree, 'apiVersion', apiVersion);
}

function checkWord(
  tree: TreeMap,
  key: 'kind' | 'apiVersion',
  expected: string,
): Problem | undefined {
  const entry = tree.entries.get(key);
  const value = entry?.tree.kind === 'string' ? entry.tree.value : '';
  const line = entry?.line ?? 0;
  if (value === expected) return undefined;
  if (value === '') {
    return { field: key, line, text: `no ${key} is given; it must be ${quote(expected)}` };
  }
  const version = tree.entries.get('apiVersion')?.tree;
  const given = version?.kind === 'string' && version.value !== '' ? version.value : apiVersion;
  const text = {
    kind: `no kind ${quote(value)} is registered for version ${quote(given)}`,
    apiVersion: `no kind ${quote(kind)} is registered for version ${quote(value)}`,
  }[key];
  const hint =
    value === 'ConfigMap'
      ? 'the configuration is a value in its data'
      : `it must be ${quote(expected)}`;
  return { field: key, line, text: `${text}; ${hint}` };
}

const knownFields: ReadonlyMap<string, FieldPath> = new Map(fieldPaths.map((path) => [path, path]));

class Decoder {
  readonly values = new Map<FieldPath, unknown>();
  readonly lines = new Map<string, number>();
  readonly problems: Problem[] = [];
  readonly #unknown: string[] = [];
  readonly #repeated: string[] = [];

  section(tree: TreeMap, prefix: string): void {
    for (const { key, line } of tree.duplicates) {
      this.#repeated.push(`${shorten(prefix + key)} (line ${line})`);
    }
    for (const [key, entry] of tree.entries) {
      if (prefix === '' && (key === 'apiVersion' || key === 'kind')) continue;
      const path = `${prefix}${key}`;
      const field = knownFields.get(path);
      if (field) this.#field(field, entry);
      else if (fieldPaths.some((one) => one.startsWith(`${path}.`)))
        this.#subsection(path, entry.tree, entry.line);
      else this.#reportUnknown(path, entry.line);
    }
  }

  #field(path: FieldPath, { tree, line }: TreeEntry): void {
    const { keepsZero, type } = settingTable[path];
    this.lines.set(path, line);
    if (tree.kind === 'null') return;
    if (tree.kind === 'map') {
      for (const [key, entry] of tree.entries) this.lines.set(`${path}.${key}`, entry.line);
    }
    this.#reportRepeats(tree, path);
    const { decode, itemKeys, zero } = rulesOfType(type);
    if (tree.kind === 'list' && itemKeys) this.#items(tree.items, path, itemKeys);
    const decoded = decode(tree);
    if (!decoded.ok) this.problems.push({ field: path, line, text: decoded.error });
    else if (keepsZero || !isDeepStrictEqual(decoded.value, zero)) {
      this.values.set(path, decoded.value);
    }
  }

  #items(items: readonly Tree[], path: string, known: readonly string[]): void {
    for (const [index, item] of items.entries()) {
      if (item.kind !== 'map') continue;
      const at = `${path}[${index}]`;
      this.#reportRepeats(item, at);
      for (const [key, { line }] of item.entries) {
        if (!known.includes(key)) this.#reportUnknown(key, line, known, `${at}.`);
      }
    }
  }

  #subsection(path: string, tree: Tree, line: number): void {
    if (tree.kind === 'map') this.section(tree, `${path}.`);
    else if (tree.kind !== 'null') {
      const text = `must be a mapping, not ${describeTree(tree)}`;
      this.problems.push({ field: path, line, text });
    }
  }

  #reportRepeats(tree: Tree, path: string): void {
    if (tree.kind !== 'map') return;
    for (const { key, line } of tree.duplicates) {
      this.#repeated.push(`${path}.${key} (line ${line})`);
    }
  }

  #reportUnknown(
    name: string,
    line: number,
    known: readonly string[] = fieldPaths,
    prefix = '',
  ): void {
    // What is only counted needs no guess, which takes its time.
    const hint = this.#unknown.length < listedMax ? hintFor(name, known) : '';
    this.#unknown.push(`${shorten(prefix + name)} (line ${line}${hint})`);
  }

  /** What strict decoding would refuse. */
  leniencies(): string[] {
    const lines: string[] = [];
    if (this.#unknown.length > 0) lines.push(`unknown fields, ignored: ${list(this.#unknown)}`);
    if (this.#repeated.length > 0) {
      lines.push(`fields given twice (the last one counts): ${list(this.#repeated)}`);
    }
    return lines.map((line) => `Using lenient decoding as strict decoding failed: ${line}`);
  }
}

/** Fields of older releases, and of objects in general, that are still in files. */
const formerFields: Readonly<Record<string, string>> = {
  'conntrack.max': 'of older releases, the most connections in all: see conntrack.maxPerCore',
  metadata: 'this kind has none: delete it',
  resourceContainer: 'of older releases: delete it',
  udpTimeoutMilliseconds: 'of older releases, now udpIdleTimeout',
};

/** What may be meant: another field of the same name, or one that is spelled like it. */
function hintFor(name: string, known: readonly string[]): string {
  if (Object.hasOwn(formerFields, name)) return `, ${formerFields[name]}`;
  const end = name.split('.').at(-1);
  const homes = known.filter((path) => path.split('.').at(-1) === end);
  const guess = homes.length > 0 ? homes.join(' or ') : nearest(name, known);
  return guess === undefined ? '' : `, did you mean ${guess}?`;
}

function list(items: readonly string[]): string {
  const shown = items.slice(0, listedMax).join(', ');
  return items.length > listedMax ? `${shown} and ${items.length - listedMax} more` : shown;
}
