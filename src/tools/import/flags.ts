/** From kube-proxy's command line, however it is written down, to a configuration file. */
import { isDeepStrictEqual } from 'node:util';
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
import {
  flagFields,
  givenByFlags,
  listenAddresses,
  settingsOfFlags,
  withDefaults,
} from '../../config/values.ts';
import { decodeText } from '../../config/yaml.ts';
import type { Conversion } from './conversion.ts';
import { contentsOf } from './find.ts';

/** One word of the command line, with the place that is named in notes. */
export interface FlagWord {
  readonly word: string;
  /** Origin of the flag, for notes; if empty, notes name the flag. */
  readonly from: string;
}

/**
 * Reads a file that holds a command line: words as in a shell, a systemd unit, a file of variables,
 * a YAML or JSON list of words, or any manifests with a container that runs kube-proxy.
 */
export function importFlagFile(bytes: Uint8Array, conversion: Conversion): void {
  const listed = listedWords(bytes);
  const decoded = listed === undefined ? decodeText(bytes) : undefined;
  if (decoded?.ok === false) {
    conversion.fail('file', decoded.error);
    return;
  }
  const words = listed ?? wordsOfText(decoded?.text ?? '');
  const argv = withoutShell(words.slice(commandIn(words) + 1), conversion);
  if (argv.length === 0) conversion.fail('file', 'no flags in it');
  importCommandLine(
    argv.map((word) => ({ word, from: '' })),
    conversion,
  );
}

/** Takes over flags, and what their absence means where there is no file. */
export function importCommandLine(words: readonly FlagWord[], conversion: Conversion): void {
  const flags = importFlags(words, conversion);
  if (flags) keepFlagDefaults(flags, conversion);
}

/** The place of the program's name: before flags if possible; -1 = the line begins with flags. */
function commandIn(words: readonly string[]): number {
  const isProgram = (word: string): boolean => /(?:^|\/)kube-proxy$/.test(word);
  const isRun = (word: string, at: number): boolean =>
    isProgram(word) && words[at + 1]?.startsWith('-') === true;
  const run = words.findIndex(isRun);
  return run < 0 ? words.findIndex(isProgram) : run;
}

/** What a unit starts, the values of a file of variables, or the text itself. */
function wordsOfText(text: string): string[] {
  const lines = text
    .replaceAll(/\\\r?\n/g, ' ')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => !/^(?:[#;]|$)/.test(line));
  const started = lines.filter((line) => /^ExecStart=.*kube-proxy/.test(line)).at(-1);
  if (started !== undefined) return splitWords(started.replace(/^ExecStart=[-@:+!|]*/, ''));
  const variables = lines.map((line) => /^(?:export\s+)?\w+=(.*)$/.exec(line)?.[1]);
  const values = variables.filter((value) => value !== undefined);
  if (values.length === 0 || values.length < lines.length) return splitWords(text);
  return values
    .flatMap(splitWords)
    .flatMap(splitWords)
    .filter((word) => word.startsWith('-'));
}

/** `>> log 2>&1`, `| tee`: what a shell does after the command is not kube-proxy's. */
function withoutShell(words: readonly string[], conversion: Conversion): readonly string[] {
  const end = words.findIndex((word) => /^(?:\d*[<>]|[|;&])/.test(word));
  if (end < 0) return words;
  conversion.leaveOut(words.slice(end).join(' '), 'it is for the shell');
  return words.slice(0, end);
}

/** Some defaults depend on whether there is a file; the new file must not change what happens. */
function keepFlagDefaults(flags: ParsedFlags, conversion: Conversion): void {
  const before = settingsOfFlags(flags, givenByFlags(flags));
  const after = withDefaults(conversion.given());
  for (const field of fieldPaths) {
    if (isDeepStrictEqual(before[field], after[field])) continue;
    conversion.take('default without a file', field, before[field]);
  }
}

/** The words of a list, or of the container that runs kube-proxy. */
function listedWords(bytes: Uint8Array): string[] | undefined {
  const { documents, found } = contentsOf(bytes, 'kube-proxy');
  if (documents[0]?.kind === 'list') return strings(documents[0]);
  const containers = found.filter(({ key }) => key === 'containers');
  if (containers.length === 0) return undefined;
  const commands = containers.map(({ tree }) => [
    ...strings(child(tree, 'command')?.tree),
    ...strings(child(tree, 'args')?.tree),
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

/** `$(NAME)`, `${NAME}`, `$NAME`: the kubelet or a shell replaces them; a file has no such thing. */
function dropReferences(words: readonly FlagWord[], conversion: Conversion): readonly FlagWord[] {
  const spansTwo = (index: number): boolean =>
    /^--[^=]+$/.test(words[index]?.word ?? '') && isReference(words[index + 1]?.word ?? '');
  return words.filter(({ word, from }, index) => {
    if (!spansTwo(index) && !isReference(word)) return true;
    if (word.startsWith('-')) {
      const text = 'stays a flag, because it needs the environment of the program';
      conversion.note(from || `--${nameOf(word)}`, text);
    } else if (!spansTwo(index - 1)) {
      conversion.leaveOut(word, 'its value is in the environment of the program');
    }
    return false;
  });
}

function isReference(word: string): boolean {
  return /\$(?:\(\w+\)|\{\w+\}|[A-Za-z_])/.test(word);
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
