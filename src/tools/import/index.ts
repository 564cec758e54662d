/** `fairlead config convert` and `fairlead config validate`, without their input and output. */
import { modeAdvice } from '../../config/advice.ts';
import { errorsOf, loadConfig } from '../../config/load.ts';
import { child, type TreeEntry, textAt } from '../../config/tree.ts';
import { kind as configurationKind } from '../../config/values.ts';
import { parseYaml } from '../../config/yaml.ts';
import { type CommandResult, Conversion, finish } from './conversion.ts';
import { importFlagFile } from './flags.ts';
import { importOpenShift } from './openshift.ts';
import { importOvhcloud } from './ovhcloud.ts';

const importers = {
  openshift: importOpenShift,
  ovhcloud: importOvhcloud,
  flags: importFlagFile,
} as const;
export type ImportSource = keyof typeof importers;
export const importSources = Object.keys(importers) as readonly ImportSource[];

/** Turns the file's bytes into KubeProxyConfiguration YAML and says what became of each field. */
export function convert(from: ImportSource, bytes: Uint8Array): CommandResult {
  const conversion = new Conversion();
  importers[from](bytes, conversion);
  return finish(conversion);
}

/** Checks a configuration, or the one in a ConfigMap, as a start with `--config` would. */
export function validateFile(path: string, bytes: Uint8Array): CommandResult {
  const unwrapped = unwrapConfigMap(bytes);
  if (!unwrapped.ok) return { text: '', notes: [`Error: ${unwrapped.error}`], exitCode: 1 };
  const place = unwrapped.place === undefined ? path : `${unwrapped.place}, in ${path},`;
  const result = loadConfig([`--config=${path}`], { readFile: () => unwrapped.bytes });
  if (result.kind === 'error') {
    const errors = errorsOf(result).map((error) => `  ${error}`);
    const lines = [`Error: ${place} is not valid`, ...errors];
    return { text: '', notes: [...result.warnings, ...lines], exitCode: 1 };
  }
  if (result.kind !== 'run') throw new Error(`--config leads to ${result.kind}`);
  const advice = modeAdvice(result.config)
    .filter(({ advice }) => advice !== '')
    .map(({ about, text, advice }) => `${about} ${text}: ${advice}`);
  const notes = [...result.warnings, ...advice];
  return { text: `${place} is valid\n`, notes, exitCode: 0 };
}

/** What kubeadm calls it. */
const usualKey = 'config.conf';

type Unwrapped =
  /** `place` names the key of the ConfigMap; undefined if the text is not a ConfigMap. */
  | { readonly ok: true; readonly bytes: Uint8Array; readonly place: string | undefined }
  | { readonly ok: false; readonly error: string };

/** The configuration that is in the text, or is the text. */
function unwrapConfigMap(bytes: Uint8Array): Unwrapped {
  const parsed = parseYaml(bytes);
  const itself = { ok: true, bytes, place: undefined } as const;
  if (!parsed.ok || textAt(parsed.tree, 'kind') !== 'ConfigMap') return itself;
  const metadata = child(parsed.tree, 'metadata')?.tree;
  const names = ['namespace', 'name'].map((key) => textAt(metadata, key) ?? '');
  const map = `ConfigMap ${names.filter((name) => name !== '').join('/')}`.trim();
  const data = child(parsed.tree, 'data')?.tree;
  const keys = data?.kind === 'map' ? [...data.entries.keys()] : [];
  const found = keys.filter((key) => isConfiguration(textAt(data, key) ?? ''));
  const key = found.includes(usualKey) ? usualKey : found[0];
  if (key === undefined || (key !== usualKey && found.length > 1)) {
    const which = found.length === 0 ? 'none of its keys' : `not one key but ${found.join(', ')}`;
    return { ok: false, error: `${map}: ${which} has a ${configurationKind}` };
  }
  return { ok: true, bytes: inPlace(bytes, child(data, key)!), place: `${key} of ${map}` };
}

function isConfiguration(text: string): boolean {
  const parsed = parseYaml(new TextEncoder().encode(text));
  return parsed.ok && textAt(parsed.tree, 'kind') === configurationKind;
}

/** With empty lines before it: its lines have the numbers that they have in the ConfigMap. */
function inPlace(bytes: Uint8Array, { line, tree }: TreeEntry): Uint8Array {
  const text = tree.kind === 'string' ? tree.value : '';
  const [head = ''] = new TextDecoder()
    .decode(bytes)
    .split('\n')
    .slice(line - 1);
  const isBlock = /\|[-+0-9]*\s*$/.test(head);
  return new TextEncoder().encode(isBlock ? '\n'.repeat(line) + text : text);
}
