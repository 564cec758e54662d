/**
 * Decodes a KubeProxyConfiguration file (behaviour document 2.1). Unknown and repeated fields are
 * accepted with a warning, as kube-proxy does; everything else that is wrong is an error, and all
 * errors are found in one go.
 */
import { quote } from './go-values.ts';
import { type FieldPath, fieldPaths, type GivenSettings } from './settings/index.ts';
import { nearest } from './spelling.ts';
import {
  describeTree,
  formatProblem,
  type Problem,
  shorten,
  type Tree,
  type TreeMap,
} from './tree.ts';
import { rulesOf } from './types.ts';
import { apiVersion, kind, meansDefault, settingsFrom } from './values.ts';
import { parseYaml } from './yaml.ts';

interface DecodedFile {
  readonly ok: true;
  /** Fields that the file gives; null and zero values that mean "default" are left out. */
  readonly given: GivenSettings;
  /** Line of every field that stands in the file. */
  readonly lines: ReadonlyMap<string, number>;
  readonly warnings: readonly string[];
}

export type FileResult = DecodedFile | UnreadableFile;

export interface UnreadableFile {
  readonly ok: false;
  /** One line in kube-proxy's words. */
  readonly text: string;
  /** What is wrong where. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** The fields that could be read; undefined where the file has none. */
  readonly rest?: Pick<DecodedFile, 'given' | 'lines'>;
}

/** More unknown fields than this are counted, not listed. */
const listedMax = 20;

export function decodeFile(bytes: Uint8Array): FileResult {
  const parsed = parseYaml(bytes);
  if (!parsed.ok) return failed(parsed.problems);
  const wrongKind = checkKind(parsed.tree);
  if (wrongKind) return failed([wrongKind]);
  const decoder = new Decoder();
  decoder.section(parsed.tree as TreeMap, '');
  const read = { given: settingsFrom(decoder.values), lines: decoder.lines };
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

function checkWord(tree: TreeMap, key: 'kind' | 'apiVersion', wanted: string): Problem | undefined {
  const entry = tree.entries.get(key);
  const value = entry?.tree.kind === 'string' ? entry.tree.value : '';
  const line = entry?.line ?? 0;
  if (value === wanted) return undefined;
  if (value === '') {
    return { field: key, line, text: `no ${key} is given; it must be ${quote(wanted)}` };
  }
  const text = {
    kind: `no kind ${quote(value)} is registered for version ${quote(apiVersion)}`,
    apiVersion: `no kind ${quote(kind)} is registered for version ${quote(value)}`,
  }[key];
  const hint = value === 'ConfigMap' ? '; the configuration is a value in its data' : '';
  return { field: key, line, text: `${text}${hint}` };
}

class Decoder {
  readonly values = new Map<FieldPath, unknown>();
  readonly lines = new Map<string, number>();
  readonly problems: Problem[] = [];
  private readonly unknown: string[] = [];
  private readonly repeated: string[] = [];

  section(tree: TreeMap, prefix: string): void {
    for (const { key, line } of tree.duplicates) {
      this.repeated.push(`${shorten(prefix + key)} (line ${line})`);
    }
    for (const [key, entry] of tree.entries) {
      if (prefix === '' && (key === 'apiVersion' || key === 'kind')) continue;
      const path = `${prefix}${key}`;
      if (isField(path)) this.field(path, entry.tree, entry.line);
      else if (isSection(path)) this.subsection(path, entry.tree, entry.line);
      else this.reportUnknown(path, entry.line);
    }
  }

  private field(path: FieldPath, tree: Tree, line: number): void {
    this.lines.set(path, line);
    if (tree.kind === 'null') return;
    this.reportRepeats(tree, path);
    const { decode, itemKeys } = rulesOf(path);
    if (tree.kind === 'list' && itemKeys) this.items(tree.items, path, itemKeys);
    const decoded = decode(tree);
    if (!decoded.ok) this.problems.push({ field: path, line, text: decoded.error });
    else if (!meansDefault(path, decoded.value)) this.values.set(path, decoded.value);
  }

  private items(items: readonly Tree[], path: string, known: readonly string[]): void {
    for (const [index, item] of items.entries()) {
      if (item.kind !== 'map') continue;
      const at = `${path}[${index}]`;
      this.reportRepeats(item, at);
      for (const [key, { line }] of item.entries) {
        if (!known.includes(key)) this.reportUnknown(key, line, known, `${at}.`);
      }
    }
  }

  private subsection(path: string, tree: Tree, line: number): void {
    if (tree.kind === 'map') this.section(tree, `${path}.`);
    else if (tree.kind !== 'null') {
      const text = `must be a mapping, not ${describeTree(tree)}`;
      this.problems.push({ field: path, line, text });
    }
  }

  private reportRepeats(tree: Tree, path: string): void {
    if (tree.kind !== 'map') return;
    for (const { key, line } of tree.duplicates) {
      this.repeated.push(`${path}.${key} (line ${line})`);
    }
  }

  private reportUnknown(
    name: string,
    line: number,
    known: readonly string[] = fieldPaths,
    prefix = '',
  ): void {
    // What is only counted needs no guess, which takes its time.
    const guess = this.unknown.length < listedMax ? nearest(name, known) : undefined;
    const hint = guess === undefined ? '' : `, did you mean ${guess}?`;
    this.unknown.push(`${shorten(prefix + name)} (line ${line}${hint})`);
  }

  /** What strict decoding would refuse. */
  leniencies(): string[] {
    const lines: string[] = [];
    if (this.unknown.length > 0) lines.push(`unknown fields, ignored: ${list(this.unknown)}`);
    if (this.repeated.length > 0) {
      lines.push(`fields that stand twice, the last one counts: ${list(this.repeated)}`);
    }
    return lines.map((line) => `Using lenient decoding as strict decoding failed: ${line}`);
  }
}

function list(items: readonly string[]): string {
  const shown = items.slice(0, listedMax).join(', ');
  return items.length > listedMax ? `${shown} and ${items.length - listedMax} more` : shown;
}

function isField(path: string): path is FieldPath {
  return (fieldPaths as readonly string[]).includes(path);
}

function isSection(path: string): boolean {
  return fieldPaths.some((field) => field.startsWith(`${path}.`));
}
