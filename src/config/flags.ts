/** Reads a command line as kube-proxy does, that is as pflag does (behaviour document 1.1). */
import { quote } from './go-values.ts';
import {
  flagKeys,
  flagOf,
  type SettingKey,
  type SettingValue,
  settingTable,
} from './settings/index.ts';
import { nearest } from './spelling.ts';
import { bareValue, defaultOf, rulesOf } from './types.ts';

/** Flags that kube-proxy once had, or has on Windows: unknown today, with what to do instead. */
export const formerFlags: Readonly<Record<string, string>> = {
  'udp-timeout': 'set udpIdleTimeout in a configuration file; it is for mode userspace only',
  'proxy-port-range':
    'portRange in a configuration file is checked, but no mode needs ports of its own',
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
  /** What the flag of a setting says; without one, the setting's default. */
  value<Key extends SettingKey>(key: Key): SettingValue<Key>;
  /** Whether the flag stands on the command line, whatever its value. */
  isSet(key: SettingKey): boolean;
  /** The value as text, as `--flagz` and the dump at -v=1 show it. */
  text(key: SettingKey): string;
  /** Words that are no flags and not empty. */
  readonly words: readonly string[];
  /** Lines for stderr about deprecated flags. */
  readonly warnings: readonly string[];
}

type FlagsResult =
  | ParsedFlags
  /** `error` is pflag's line; `hint` what to do, empty = nothing to say. */
  | { readonly ok: false; readonly error: string; readonly hint: string };

class FlagError extends Error {
  readonly hint: string;
  constructor(message: string, hint = '') {
    super(message);
    this.hint = hint;
  }
}

/** What the flag of a setting means: its own words, or the field's. */
export function flagMeaning(key: SettingKey): string {
  return settingTable[key].flagMeaning ?? settingTable[key].meaning;
}

export function parseFlags(argv: readonly string[]): FlagsResult {
  const parser = new Parser(argv);
  try {
    parser.run();
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    return { ok: false, error: error.message, hint: error.hint };
  }
  const { values, words, warnings } = parser;
  const value = (key: SettingKey): unknown => values.get(key) ?? defaultOf(key);
  return {
    ok: true,
    // The parser put in what the setting's type reads, which is what the table says.
    value: <Key extends SettingKey>(key: Key) => value(key) as SettingValue<Key>,
    isSet: (key) => parser.set.has(key),
    text: (key) => rulesOf(key).format(value(key)),
    words: words.filter((word) => word !== ''),
    warnings,
  };
}

class Parser {
  readonly values = new Map<SettingKey, unknown>();
  readonly set = new Set<SettingKey>();
  readonly words: string[] = [];
  readonly warnings: string[] = [];
  readonly #argv: readonly string[];
  #at = 0;

  constructor(argv: readonly string[]) {
    this.#argv = argv;
  }

  run(): void {
    while (this.#at < this.#argv.length) {
      const word = this.#argv[this.#at]!;
      this.#at += 1;
      if (word === '--') {
        this.words.push(...this.#argv.slice(this.#at));
        return;
      }
      if (word.startsWith('--')) this.#long(word);
      else if (word.startsWith('-') && word !== '-') this.#short(word.slice(1));
      else this.words.push(word);
    }
  }

  #long(word: string): void {
    const [, written = '', given] = /^--([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    if (written === '' || written.startsWith('-')) {
      throw new FlagError(`bad flag syntax: ${word}`);
    }
    const name = written.replaceAll('_', '-');
    const key = flagKeys.get(name);
    if (key === undefined) throw unknownFlag(written, name);
    this.#assign(key, given ?? bareValue(settingTable[key]) ?? this.#next(word));
  }

  /** Letters after one dash; the first that takes a value takes the rest of the word. */
  #short(letters: string): void {
    for (let rest = letters; rest !== ''; ) {
      const letter = rest[0]!;
      const key = [...flagKeys.values()].find((key) => settingTable[key].shorthand === letter);
      if (key === undefined) {
        throw new FlagError(`unknown shorthand flag: '${letter}' in -${rest}`);
      }
      const bare = bareValue(settingTable[key]);
      const after = rest.slice(1);
      if (after.length > 1 && after.startsWith('=')) {
        this.#assign(key, after.slice(1));
        return;
      }
      if (bare === undefined) {
        this.#assign(key, after === '' ? this.#next(`'${letter}' in -${rest}`) : after);
        return;
      }
      this.#assign(key, bare);
      rest = after;
    }
  }

  #next(flag: string): string {
    const value = this.#argv[this.#at];
    if (value === undefined) throw new FlagError(`flag needs an argument: ${flag}`);
    this.#at += 1;
    return value;
  }

  #assign(key: SettingKey, text: string): void {
    const { deprecated, shorthand, type } = settingTable[key];
    const { join, parse } = rulesOf(key);
    const flag = `--${flagOf(key)}`;
    const again = this.set.has(key);
    this.set.add(key);
    if (deprecated !== undefined) {
      this.warnings.push(`Flag ${flag} has been deprecated, ${deprecated}`);
    }
    // kube-proxy passes over an empty address without a word.
    if (type === 'ip' && text === '') return;
    const parsed = parse(text);
    if (!parsed.ok) {
      const shown = shorthand === undefined ? flag : `-${shorthand}, ${flag}`;
      throw new FlagError(
        `invalid argument ${quote(text)} for ${quote(shown)} flag: ${parsed.error}`,
      );
    }
    const joined = again && join ? join(this.values.get(key), parsed.value) : undefined;
    this.values.set(key, joined ?? parsed.value);
  }
}

function unknownFlag(written: string, name: string): FlagError {
  const former = Object.hasOwn(formerFlags, name) ? formerFlags[name] : undefined;
  const guess = nearest(name, [...flagKeys.keys()]);
  const hint = former ?? (guess === undefined ? '' : `did you mean --${guess}?`);
  return new FlagError(`unknown flag: --${written}`, hint);
}
