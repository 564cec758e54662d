/** Reads a command line as kube-proxy does, that is as pflag does (behaviour document 1.1). */
import { FlagError, type FlagHandler, type FlagSet, readFlags } from './flag-syntax.ts';
import { quote } from './go-values.ts';
import {
  flagKeys,
  flagOf,
  type SettingKey,
  type SettingValue,
  settingTable,
} from './settings/index.ts';
import { bareValue, defaultOf, rulesOf } from './types.ts';

/** Flags that kube-proxy once had, or has on Windows: unknown today, with what to do instead. */
export const formerFlags: Readonly<Record<string, string>> = {
  'udp-timeout': 'set udpIdleTimeout in a configuration file; it is for mode userspace only',
  'proxy-port-range':
    'portRange in a configuration file is validated, but no mode allocates proxy ports',
  'cleanup-iptables': 'use --cleanup',
  'resource-container': 'let the supervisor put the process into its cgroup',
  'log-dir': 'logs go to stderr; redirect them',
  'log-file': 'logs go to stderr; redirect them',
  logtostderr: 'logs go to stderr anyway; drop the flag',
  alsologtostderr: 'logs go to stderr anyway; drop the flag',
  stderrthreshold: 'logs go to stderr anyway; drop the flag',
  'windows-service': 'it is for Windows nodes',
  'source-vip': 'it is for Windows nodes',
  'network-name': 'it is for Windows nodes',
  'enable-dsr': 'it is for Windows nodes',
  'root-hnsendpoint-name': 'it is for Windows nodes',
  'forward-healthcheck-vip': 'it is for Windows nodes',
};

export interface ParsedFlags {
  readonly ok: true;
  /** Returns the value of a setting's flag, or the setting's default without a flag. */
  value<Key extends SettingKey>(key: Key): SettingValue<Key>;
  /** Reports whether the flag was given on the command line, with any value. */
  isSet(key: SettingKey): boolean;
  /** The value as text, as `--flagz` and the dump at -v=1 show it. */
  text(key: SettingKey): string;
  /** Words that are neither flags nor empty. */
  readonly words: readonly string[];
  /** Lines for stderr about deprecated flags. */
  readonly warnings: readonly string[];
}

type FlagsResult =
  | ParsedFlags
  /** `error` is pflag's line; `hint` what to do, empty = nothing to say. */
  | { readonly ok: false; readonly error: string; readonly hint: string };

/** What the flag of a setting means: its own words, or the field's. */
export function flagMeaning(key: SettingKey): string {
  return settingTable[key].flagMeaning ?? settingTable[key].meaning;
}

export function parseFlags(argv: readonly string[]): FlagsResult {
  const values = new Map<SettingKey, unknown>();
  const set = new Set<SettingKey>();
  const warnings: string[] = [];
  const flags = settingFlags((key, text) => {
    const { deprecated, shorthand, type } = settingTable[key];
    const { join, parse } = rulesOf(key);
    const flag = `--${flagOf(key)}`;
    const again = set.has(key);
    set.add(key);
    if (deprecated !== undefined) warnings.push(`Flag ${flag} has been deprecated, ${deprecated}`);
    // kube-proxy passes over an empty address without a word.
    if (type === 'ip' && text === '') return;
    const parsed = parse(text);
    if (!parsed.ok) {
      const shown = shorthand === undefined ? flag : `-${shorthand}, ${flag}`;
      throw new FlagError(
        `invalid argument ${quote(text)} for ${quote(shown)} flag: ${parsed.error}`,
      );
    }
    const joined = again && join ? join(values.get(key), parsed.value) : undefined;
    values.set(key, joined ?? parsed.value);
  });
  let words: readonly string[];
  try {
    words = readFlags(argv, flags);
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    return { ok: false, error: error.message, hint: error.hint };
  }
  const value = (key: SettingKey): unknown => values.get(key) ?? defaultOf(key);
  return {
    ok: true,
    // The parser put in what the setting's type reads, which is what the table says.
    value: <Key extends SettingKey>(key: Key) => value(key) as SettingValue<Key>,
    isSet: (key) => set.has(key),
    text: (key) => rulesOf(key).format(value(key)),
    words: words.filter((word) => word !== ''),
    warnings,
  };
}

/** The flags of all settings. `take` is called with the text of each that is given. */
export function settingFlags(take: (key: SettingKey, text: string) => void): FlagSet {
  const handlerOf = (key: SettingKey | undefined): FlagHandler | undefined => {
    if (key === undefined) return undefined;
    return { bare: bareValue(settingTable[key]), take: (text) => take(key, text) };
  };
  return {
    names: [...flagKeys.keys()],
    named: (name) => handlerOf(flagKeys.get(name)),
    lettered: (letter) =>
      handlerOf([...flagKeys.values()].find((key) => settingTable[key].shorthand === letter)),
    hint: (name) => (Object.hasOwn(formerFlags, name) ? formerFlags[name] : undefined),
  };
}
