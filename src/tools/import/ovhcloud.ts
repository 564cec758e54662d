/**
 * From OVHcloud's customization of a managed cluster (ISO 8601 durations), alone, its part for
 * kube-proxy alone, or within the payload that creates or resets a cluster. The payload replaces
 * what was there: a field that is not in it has its default.
 */
import { parseIsoDuration } from '../../config/duration.ts';
import type { FieldPath } from '../../config/settings/index.ts';
import { child, describeTree, type Problem, type Tree } from '../../config/tree.ts';
import { decodeText, parseYaml } from '../../config/yaml.ts';
import type { Conversion } from './conversion.ts';

/** The API's fields below `kubeProxy`; they have the file's names. */
const durations: readonly FieldPath[] = [
  'iptables.minSyncPeriod',
  'iptables.syncPeriod',
  'ipvs.minSyncPeriod',
  'ipvs.syncPeriod',
  'ipvs.tcpFinTimeout',
  'ipvs.tcpTimeout',
  'ipvs.udpTimeout',
];

/** The API has it in the payloads that create and reset a cluster only, with different defaults. */
const modeNotGiven =
  'not given: the best mode that the kernel can do; in a cluster created without it kube-proxy ' +
  'ran in mode iptables, after a reset without it in mode ipvs';

export function importOvhcloud(bytes: Uint8Array, conversion: Conversion): void {
  const decoded = decodeText(bytes);
  if (!decoded.ok) {
    conversion.fail('file', decoded.error);
    return;
  }
  const json = parseRelaxedJson(decoded.text);
  if (!json.ok) {
    conversion.fail(`line ${json.problem.line}`, json.problem.text);
    return;
  }
  for (const note of json.notes) conversion.note('file', note);
  const { tree } = json;
  if (tree.kind !== 'map') {
    conversion.fail('file', `must be an object, not ${describeTree(tree)}`);
    return;
  }
  const wrapped = tree.entries.has('customization') || tree.entries.has('kubeProxyMode');
  const isBare = ['iptables', 'ipvs'].some((section) => tree.entries.has(section));
  if (wrapped) cluster(tree, conversion);
  else if (isBare) kubeProxy(tree, 'kubeProxy', conversion);
  else customization(tree, '', conversion);
  if (!child(tree, 'kubeProxyMode')) conversion.note('kubeProxyMode', modeNotGiven);
}

/** The payload of a cluster: its mode, and the customization. */
function cluster(tree: Extract<Tree, { kind: 'map' }>, conversion: Conversion): void {
  for (const [name, entry] of tree.entries) {
    if (name === 'kubeProxyMode') mode(entry.tree, conversion);
    else if (name === 'customization') customization(entry.tree, 'customization.', conversion);
    else conversion.leaveOut(name, 'not for the proxy');
  }
}

function mode(tree: Tree, conversion: Conversion): void {
  if (tree.kind === 'string') conversion.take('kubeProxyMode', 'mode', tree.value);
  else if (tree.kind !== 'null') {
    conversion.fail('kubeProxyMode', `must be a string, not ${describeTree(tree)}`);
  }
}

function customization(tree: Tree, prefix: string, conversion: Conversion): void {
  if (!isObject(tree, prefix.slice(0, -1) || 'customization', conversion)) return;
  for (const [name, entry] of tree.entries) {
    if (name === 'kubeProxy') kubeProxy(entry.tree, `${prefix}kubeProxy`, conversion);
    else conversion.leaveOut(`${prefix}${name}`, 'not for the proxy');
  }
  const path = `${prefix}kubeProxy`;
  if (!child(tree, 'kubeProxy')) conversion.note(path, 'not given: every field has its default');
}

function kubeProxy(tree: Tree, from: string, conversion: Conversion): void {
  if (!isObject(tree, from, conversion)) return;
  for (const [section, entry] of tree.entries) {
    const path = `${from}.${section}`;
    if (section !== 'iptables' && section !== 'ipvs') conversion.leaveOut(path, 'not known');
    else if (isObject(entry.tree, path, conversion)) {
      for (const { key, line } of entry.tree.duplicates) {
        conversion.note(`${path}.${key}`, `given twice (line ${line}); the last one counts`);
      }
      for (const [name, { tree: value }] of entry.tree.entries) {
        field(value, `${section}.${name}`, `${path}.${name}`, conversion);
      }
    }
  }
  for (const section of ['iptables', 'ipvs'] as const) {
    if (child(tree, section)) continue;
    conversion.note(`${from}.${section}`, 'not given: its fields have their defaults');
  }
}

function field(tree: Tree, name: string, from: string, conversion: Conversion): void {
  const path = durations.find((known) => known === name);
  if (tree.kind === 'null') return;
  if (path === undefined && name !== 'ipvs.scheduler') conversion.leaveOut(from, 'not known');
  else if (tree.kind !== 'string') {
    conversion.fail(from, `must be a string, not ${describeTree(tree)}`);
  } else if (path === undefined) conversion.takeField(from, 'ipvs.scheduler', tree.value);
  else {
    const duration = parseIsoDuration(tree.value);
    if (duration.ok) conversion.takeField(from, path, duration.value);
    else conversion.fail(from, duration.error);
  }
}

function isObject(
  tree: Tree,
  from: string,
  conversion: Conversion,
): tree is Extract<Tree, { kind: 'map' }> {
  if (tree.kind === 'map') return true;
  if (tree.kind !== 'null') conversion.fail(from, `must be an object, not ${describeTree(tree)}`);
  return false;
}

type RelaxedJsonResult =
  | { readonly ok: true; readonly tree: Tree; readonly notes: readonly string[] }
  | { readonly ok: false; readonly problem: Problem };

const string = /"(?:[^"\\\n]|\\[^\n])*"/;
const comment = /\/\/[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\//;
const trailingComma = /,(?=\s*[}\]])/;

/**
 * Reads JSON as people write it into API consoles: with comments and with commas after the last
 * member, both of which are reported as notes. The rest is left to the YAML parser, since JSON is
 * YAML; what is neither is an error that names its line.
 */
function parseRelaxedJson(text: string): RelaxedJsonResult {
  const comments = blank(text, comment);
  const commas = blank(comments.text, trailingComma);
  const parsed = parseYaml(Buffer.from(commas.text));
  if (!parsed.ok) {
    const problem = parsed.problems[0]!;
    return { ok: false, problem: { ...problem, text: problem.text.replace(/^yaml: /, '') } };
  }
  const notes = [...parsed.warnings.map((warning) => warning.text)];
  if (comments.lines !== '') {
    notes.push(`comments, which JSON does not have, were skipped (line ${comments.lines})`);
  }
  if (commas.lines !== '') {
    const what = 'a comma after the last member, which JSON does not allow,';
    notes.push(`${what} was skipped (line ${commas.lines})`);
  }
  return { ok: true, tree: parsed.tree, notes };
}

/** Blanks what `found` finds outside of strings, and says on which lines that was. */
function blank(text: string, found: RegExp): { readonly text: string; readonly lines: string } {
  const lines = new Set<number>();
  const either = new RegExp(`${string.source}|(${found.source})`, 'g');
  const blanked = text.replace(either, (whole, match: string | undefined, at: number) => {
    if (match === undefined) return whole;
    lines.add(text.slice(0, at).split('\n').length);
    return match.replace(/[^\n]/g, ' ');
  });
  return { text: blanked, lines: [...lines].join(', ') };
}
