/** The syntax of command lines, which is pflag's (behaviour document 1.1), for any set of flags. */
import { nearest } from './spelling.ts';

/** A flag, as the reader of a command line sees it. */
export interface FlagHandler {
  /** The value of the flag without one; undefined = a value must follow. */
  readonly bare: string | undefined;
  /** Takes the value. Throws a FlagError. */
  take(text: string): void;
}

export interface FlagSet {
  /** The names of all flags, without hyphens. */
  readonly names: readonly string[];
  named(name: string): FlagHandler | undefined;
  lettered(letter: string): FlagHandler | undefined;
  /** What to do instead of a flag that does not exist any more. */
  hint?(name: string): string | undefined;
}

/** A wrong command line: pflag's line, and what to do; an empty hint = nothing to add. */
export class FlagError extends Error {
  readonly hint: string;

  constructor(message: string, hint = '') {
    super(message);
    this.hint = hint;
  }
}

/** Sets the values of flags, and returns the words that are not flags. Throws a FlagError. */
export function readFlags(argv: readonly string[], flags: FlagSet): string[] {
  const words: string[] = [];
  let at = 0;
  const next = (flag: string): string => {
    const value = argv[at];
    if (value === undefined) throw new FlagError(`flag needs an argument: ${flag}`);
    at += 1;
    return value;
  };
  while (at < argv.length) {
    const word = argv[at]!;
    at += 1;
    if (word === '--') return [...words, ...argv.slice(at)];
    if (word.startsWith('--')) readLong(word, flags, next);
    else if (word.startsWith('-') && word !== '-') readLetters(word.slice(1), flags, next);
    else words.push(word);
  }
  return words;
}

type Next = (flag: string) => string;

function readLong(word: string, flags: FlagSet, next: Next): void {
  const [, written = '', given] = /^--([^=]*)(?:=(.*))?$/s.exec(word) ?? [];
  if (written === '' || written.startsWith('-')) throw new FlagError(`bad flag syntax: ${word}`);
  const name = written.replaceAll('_', '-');
  const flag = flags.named(name);
  if (flag === undefined) throw unknownFlag(written, name, flags);
  flag.take(given ?? flag.bare ?? next(word));
}

/** Letters after one hyphen; the first that takes a value takes the rest of the word. */
function readLetters(letters: string, flags: FlagSet, next: Next): void {
  for (let rest = letters; rest !== ''; ) {
    const letter = rest[0]!;
    const flag = flags.lettered(letter);
    if (flag === undefined) {
      throw new FlagError(`unknown shorthand flag: '${letter}' in -${rest}`);
    }
    const after = rest.slice(1);
    const isJoined = after.length > 1 && after.startsWith('=');
    if (!isJoined && flag.bare !== undefined) {
      flag.take(flag.bare);
      rest = after;
      continue;
    }
    flag.take(isJoined ? after.slice(1) : after || next(`'${letter}' in -${rest}`));
    return;
  }
}

function unknownFlag(written: string, name: string, flags: FlagSet): FlagError {
  const guess = nearest(name, flags.names);
  const hint = flags.hint?.(name) ?? (guess === undefined ? '' : `did you mean --${guess}?`);
  return new FlagError(`unknown flag: --${written}`, hint);
}
