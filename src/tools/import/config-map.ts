/** Finds the configuration in a ConfigMap, as kubeadm has it. */
import { child, type TreeEntry } from '../../config/tree.ts';
import { kind as configurationKind } from '../../config/values.ts';
import { parseYaml } from '../../config/yaml.ts';

/** What kubeadm calls it. */
const usualKey = 'config.conf';

type Unwrapped =
  /** `place` names the key of the ConfigMap; undefined if the text is not a ConfigMap. */
  | { readonly ok: true; readonly bytes: Uint8Array; readonly place: string | undefined }
  | { readonly ok: false; readonly error: string };

/** The configuration that is in the text, or is the text. */
export function unwrapConfigMap(bytes: Uint8Array): Unwrapped {
  const parsed = parseYaml(bytes);
  const itself = { ok: true, bytes, place: undefined } as const;
  if (!parsed.ok || textOf(child(parsed.tree, 'kind')) !== 'ConfigMap') return itself;
  const metadata = child(parsed.tree, 'metadata')?.tree;
  const names = ['namespace', 'name'].map((key) => textOf(child(metadata, key)) ?? '');
  const map = `ConfigMap ${names.filter((name) => name !== '').join('/')}`.trim();
  const data = child(parsed.tree, 'data')?.tree;
  const keys = data?.kind === 'map' ? [...data.entries.keys()] : [];
  const found = keys.filter((key) => isConfiguration(textOf(child(data, key)) ?? ''));
  const key = found.includes(usualKey) ? usualKey : found[0];
  if (key === undefined || (key !== usualKey && found.length > 1)) {
    const which = found.length === 0 ? 'none of its keys' : `not one key but ${found.join(', ')}`;
    return { ok: false, error: `${map}: ${which} has a ${configurationKind}` };
  }
  return { ok: true, bytes: inPlace(bytes, child(data, key)!), place: `${key} of ${map}` };
}

function textOf(entry: TreeEntry | undefined): string | undefined {
  return entry?.tree.kind === 'string' ? entry.tree.value : undefined;
}

function isConfiguration(text: string): boolean {
  const parsed = parseYaml(new TextEncoder().encode(text));
  return parsed.ok && textOf(child(parsed.tree, 'kind')) === configurationKind;
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
