/** From kube-proxy's command line, however it is written down, to a configuration file. */
import { type ParsedFlags, parseFlags } from '../../config/flags.ts';
import {
  type FieldPath,
  fieldPaths,
  flagOf,
  type SettingKey,
  settingKeys,
  settingTable,
} from '../../config/settings/index.ts';
import { child, type Tree } from '../../config/tree.ts';
import { rulesOf } from '../../config/types.ts';
import {
  flagFields,
  givenByFlags,
  listenAddresses,
  settingsOfFlags,
  withDefaults,
} from '../../config/values.ts';
import { decodeText, parseYaml } from '../../config/yaml.ts';
import type { Conversion } from './conversion.ts';

/** One word of the command line, with the place that is named in notes. */
export interface FlagWord {
  readonly word: string;
  /** Origin of the flag, for notes; if empty, notes name the flag. */
  readonly from: string;
}

/**
 * Reads a file that holds a command line: words as in a shell, a YAML or JSON list of words, or a
 * manifest of a Pod or DaemonSet with a container that runs kube-proxy.
 */
export function importFlagFile(bytes: Uint8Array, conversion: Conversion): void {
  const decoded = decodeText(bytes);
  if (!decoded.ok) {
    conversion.fail('file', decoded.error);
    return;
  }
  const yaml = parseYaml(bytes);
  const listed = yaml.ok ? wordsOfTree(yaml.tree) : undefined;
  const words = listed ?? splitWords(decoded.text);
  const command = words.findIndex((word) => /(?:^|\/)kube-proxy$/.test(word));
  const argv = withoutShell(words.slice(command + 1), conversion);
  if (argv.length === 0) conversion.fail('file', 'no flags in it');
  const flags = importFlags(
    argv.map((word) => ({ word, from: '' })),
    conversion,
  );
  if (flags) keepFlagDefaults(flags, conversion);
}

/** `>> log 2>&1`, `| tee`: what a shell does after the command is not kube-proxy's. */
function withoutShell(words: readonly string[], conversion: Conversion): readonly string[] {
  const end = words.findIndex((word) => /^(?:\d*[<>]|[|;&])/.test(word));
  if (end < 0) return words;
  conversion.note(words.slice(end).join(' '), 'left out: it is for the shell');
  return words.slice(0, end);
}

/** Some defaults depend on whether there is a file; the new file must not change what happens. */
function keepFlagDefaults(flags: ParsedFlags, conversion: Conversion): void {
  const before = settingsOfFlags(flags, givenByFlags(flags));
  const after = withDefaults(conversion.given());
  for (const field of fieldPaths) {
    const { format } = rulesOf(field);
    if (format(before[field]) === format(after[field])) continue;
    conversion.take('default without a file', field, before[field]);
  }
}

function wordsOfTree(tree: Tree): string[] | undefined {
  if (tree.kind === 'list') return strings(tree);
  const pod = child(child(tree, 'spec')?.tree, 'template')?.tree ?? tree;
  const containers = child(child(pod, 'spec')?.tree, 'containers')?.tree;
  if (containers?.kind !== 'list') return undefined;
  const commands = containers.items.map((container) => [
    ...strings(child(container, 'command')?.tree),
    ...strings(child(container, 'args')?.tree),
  ]);
  const isProxy = (word: string): boolean => /(?:^|[\s/])kube-proxy(?:\s|$)/.test(word);
  const command = commands.find((words) => words.some(isProxy)) ?? [];
  // `sh -c "exec kube-proxy --flag"` holds the words in one.
  return command.flatMap((word) => (/\s/.test(word) && isProxy(word) ? splitWords(word) : [word]));
}

function strings(tree: Tree | undefined): string[] {
  if (tree?.kind !== 'list') return [];
  return tree.items.flatMap((item) => (item.kind === 'string' ? [item.value] : []));
}

/** Takes over what flags say; a later flag overrides an earlier one, as on a command line. */
export function importFlags(
  words: readonly FlagWord[],
  conversion: Conversion,
): ParsedFlags | undefined {
  const usable = dropWrong(dropReferences(words, conversion), conversion);
  const flags = parseFlags(usable.map(({ word }) => word));
  if (!flags.ok) {
    conversion.fail('flags', withHint(flags));
    return undefined;
  }
  if (flags.isSet('--config')) {
    const text = 'kube-proxy takes nearly everything from that file; nothing is left to convert';
    conversion.fail('--config', text);
    return undefined;
  }
  for (const word of flags.words) conversion.fail(word, 'is neither a flag nor the value of one');
  const places = new Map(usable.map(({ word, from }) => [nameOf(word), from]));
  const settings = settingsOfFlags(flags, givenByFlags(flags));
  const addresses = listenAddresses(flags, settings);
  // An address without a port gets the one of the deprecated flag.
  const isAddress = (field: FieldPath): field is AddressField => field in addresses;
  const fields = flagFields(flags).map(({ field, flag, value }) => {
    return { field, flag, value: isAddress(field) ? addresses[field] : value };
  });
  for (const flag of settingKeys.filter((key) => flags.isSet(key))) {
    const name = flagOf(flag)!;
    const from = places.get(name) || `--${name}`;
    const targets = fields.filter((target) => target.flag === flag);
    for (const { field, value } of targets) conversion.take(from, field, value);
    const port = portFlags[flag];
    if (port === undefined) {
      if (targets.length === 0) conversion.note(from, whyNot(flag));
    } else if (addresses[port] === '') conversion.take(from, port, '');
    else conversion.note(from, `counts where the address has no port; ${port}: ${addresses[port]}`);
  }
  return flags;
}

function withHint(failed: { readonly error: string; readonly hint: string }): string {
  return failed.hint === '' ? failed.error : `${failed.error} (${failed.hint})`;
}

/** `$(NAME)` is replaced by the container runtime; a file has no such thing. */
function dropReferences(words: readonly FlagWord[], conversion: Conversion): readonly FlagWord[] {
  return words.filter(({ word, from }, index) => {
    const next = words[index + 1]?.word ?? '';
    const spansTwo = /^--[^=]+$/.test(word) && isReference(next);
    if (!spansTwo && !isReference(word)) return true;
    if (word.startsWith('-')) {
      const text = 'stays a flag, because it needs the environment of the container';
      conversion.note(from || `--${nameOf(word)}`, text);
    }
    return false;
  });
}

function isReference(word: string): boolean {
  return /\$\(\w+\)/.test(word);
}

/** Drops invalid words. Each word holds flag and value, so one run can report all errors. */
function dropWrong(words: readonly FlagWord[], conversion: Conversion): readonly FlagWord[] {
  return words.filter(({ word, from }) => {
    const parsed = from === '' ? undefined : parseFlags([word]);
    if (parsed === undefined || parsed.ok) return true;
    conversion.fail(from, withHint(parsed));
    return false;
  });
}

const portFlags: Readonly<Partial<Record<SettingKey, AddressField>>> = {
  '--healthz-port': 'healthzBindAddress',
  '--metrics-port': 'metricsBindAddress',
};
type AddressField = 'healthzBindAddress' | 'metricsBindAddress';

function nameOf(word: string): string {
  return (/^--?([^=]+)/.exec(word)?.[1] ?? '').replaceAll('_', '-');
}

function whyNot(flag: SettingKey): string {
  if (/^--(?:iptables|ipvs)-.*sync-period$/.test(flag)) {
    return 'left out: it has no effect in the requested mode';
  }
  if (settingTable[flag].withConfig === 'kept') return 'stays a flag; it also works with --config';
  return 'has no field in the file';
}

/**
 * Splits text into words as a shell does: blanks between them, quotes around blanks, a backslash
 * before a character or a line end, comments to the end of the line. Nothing is expanded.
 */
export function splitWords(text: string): string[] {
  const part = /\\\r?\n|\\([\s\S])|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|(\s+)|([\s\S])/y;
  const words: string[] = [];
  let word: string | undefined;
  const end = (): void => {
    if (word !== undefined) words.push(word);
    word = undefined;
  };
  for (let match = part.exec(text); match; match = part.exec(text)) {
    const [, escaped, single, double, blank, plain] = match;
    if (blank !== undefined) end();
    else if (plain === '#' && word === undefined) {
      part.lastIndex = (text.indexOf('\n', part.lastIndex) + 1 || text.length + 1) - 1;
    } else {
      const added = escaped ?? single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? plain;
      if (added !== undefined) word = (word ?? '') + added;
    }
  }
  end();
  return words;
}
