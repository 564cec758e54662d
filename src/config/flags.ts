/** Reads a command line as kube-proxy does, that is as pflag does (behaviour document 1.1). */
import { fields } from './fields/index.ts';
import type { FlagSpec } from './flag-spec.ts';
import { type FlagName, type FlagValue, flagNames, flagTable } from './flag-table.ts';
import { bareValue, flagRules } from './flag-types.ts';
import { formerFlags } from './former-flags.ts';
import { quote } from './go-values.ts';
import { defaultSettings } from './settings.ts';
import { nearest } from './spelling.ts';

export interface ParsedFlags {
  readonly ok: true;
  value<Name extends FlagName>(name: Name): FlagValue<Name>;
  /** Whether the flag stands on the command line, whatever its value. */
  isSet(name: FlagName): boolean;
  /** The value as text, as `--flagz` and the dump at -v=1 show it. */
  text(name: FlagName): string;
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

/** Default of a flag: its field's, or the one in the table. */
export function flagDefault(name: FlagName): unknown {
  const spec = flagTable[name];
  if (spec.field !== undefined) return defaultSettings[spec.field];
  if (spec.default === undefined) return flagRules(name).zero;
  const parsed = flagRules(name).parse(spec.default);
  if (!parsed.ok) throw new Error(`default of --${name}: ${parsed.error}`);
  return parsed.value;
}

/** What a flag means: its own words, or its field's. */
export function flagMeaning(spec: FlagSpec): string {
  if (spec.meaning !== undefined) return spec.meaning;
  return spec.field === undefined ? '' : fields[spec.field].meaning;
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
  const value = (name: FlagName): unknown => values.get(name) ?? flagDefault(name);
  return {
    ok: true,
    // The parser put in what the flag's type reads, which is what the table says.
    value: <Name extends FlagName>(name: Name) => value(name) as FlagValue<Name>,
    isSet: (name) => parser.set.has(name),
    text: (name) => flagRules(name).format(value(name)),
    words: words.filter((word) => word !== ''),
    warnings,
  };
}

class Parser {
  readonly values = new Map<FlagName, unknown>();
  readonly set = new Set<FlagName>();
  readonly words: string[] = [];
  readonly warnings: string[] = [];
  private readonly argv: readonly string[];
  private at = 0;

  constructor(argv: readonly string[]) {
    this.argv = argv;
  }

  run(): void {
    while (this.at < this.argv.length) {
      const word = this.argv[this.at]!;
      this.at += 1;
      if (word === '--') {
        this.words.push(...this.argv.slice(this.at));
        return;
      }
      if (word.startsWith('--')) this.long(word);
      else if (word.startsWith('-') && word !== '-') this.short(word.slice(1));
      else this.words.push(word);
    }
  }

  private long(word: string): void {
    const [, written = '', given] = /^--([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
    if (written === '' || written.startsWith('-')) {
      throw new FlagError(`bad flag syntax: ${word}`);
    }
    const name = written.replaceAll('_', '-');
    if (!isFlag(name)) throw unknownFlag(written, name);
    this.assign(name, given ?? bareValue(flagTable[name]) ?? this.next(word));
  }

  /** Letters after one dash; the first that takes a value takes the rest of the word. */
  private short(letters: string): void {
    for (let rest = letters; rest !== ''; ) {
      const letter = rest[0]!;
      const name = flagNames.find((known) => flagTable[known].shorthand === letter);
      if (name === undefined) {
        throw new FlagError(`unknown shorthand flag: '${letter}' in -${rest}`);
      }
      const bare = bareValue(flagTable[name]);
      const after = rest.slice(1);
      if (after.length > 1 && after.startsWith('=')) {
        this.assign(name, after.slice(1));
        return;
      }
      if (bare === undefined) {
        this.assign(name, after === '' ? this.next(`'${letter}' in -${rest}`) : after);
        return;
      }
      this.assign(name, bare);
      rest = after;
    }
  }

  private next(flag: string): string {
    const value = this.argv[this.at];
    if (value === undefined) throw new FlagError(`flag needs an argument: ${flag}`);
    this.at += 1;
    return value;
  }

  private assign(name: FlagName, text: string): void {
    const spec = flagTable[name];
    const rules = flagRules(name);
    const again = this.set.has(name);
    this.set.add(name);
    if (spec.deprecated !== undefined) {
      this.warnings.push(`Flag --${name} has been deprecated, ${spec.deprecated}`);
    }
    // kube-proxy passes over an empty address without a word.
    if (spec.type === 'ip' && text === '') return;
    const parsed = rules.parse(text);
    if (!parsed.ok) {
      const shown = spec.shorthand === undefined ? `--${name}` : `-${spec.shorthand}, --${name}`;
      throw new FlagError(
        `invalid argument ${quote(text)} for ${quote(shown)} flag: ${parsed.error}`,
      );
    }
    const joined =
      again && rules.join ? rules.join(this.values.get(name), parsed.value) : undefined;
    this.values.set(name, joined ?? parsed.value);
  }
}

function isFlag(name: string): name is FlagName {
  return Object.hasOwn(flagTable, name);
}

function unknownFlag(written: string, name: string): FlagError {
  const former = Object.hasOwn(formerFlags, name) ? formerFlags[name] : undefined;
  const guess = nearest(name, flagNames);
  const hint = former ?? (guess === undefined ? '' : `did you mean --${guess}?`);
  return new FlagError(`unknown flag: --${written}`, hint);
}
