/** Parses the command line of a command according to its entry in the table. */
import { FlagError, type FlagHandler, type FlagSet, readFlags } from '../config/flag-syntax.ts';
import { parseBool, quote } from '../config/go-values.ts';
import { nearest } from '../config/spelling.ts';
import type { Command, CommandFlag, Given } from './command.ts';
import { UsageError } from './errors.ts';

/** Rejects with a UsageError. */
export async function readArguments(command: Command, args: readonly string[]): Promise<Given> {
  if (command.isRaw) return { command, words: args, values: {}, runFlags: [] };
  const values: Record<string, string | undefined> = {};
  const runFlags: string[] = [];
  const own = ownFlags(command, values);
  const flags = command.takesRunFlags ? both(own, await flagsOfRun(runFlags)) : own;
  const words = readWords(args, flags);
  checkWords(command, words);
  return { command, words, values, runFlags };
}

/** Throws a UsageError. */
function readWords(args: readonly string[], flags: FlagSet): string[] {
  try {
    return readFlags(args, flags);
  } catch (error) {
    if (!(error instanceof FlagError)) throw error;
    const hint = error.hint === '' ? '' : `; ${error.hint}`;
    throw new UsageError(`${error.message}${hint}`);
  }
}

function ownFlags({ flags = {} }: Command, values: Record<string, string | undefined>): FlagSet {
  const handlerOf = (name: string | undefined): FlagHandler | undefined => {
    const flag = name === undefined || !Object.hasOwn(flags, name) ? undefined : flags[name];
    if (flag === undefined) return undefined;
    return {
      bare: flag.shown === '' ? 'true' : undefined,
      take: (text) => {
        values[name!] = checkedValue(name!, flag, text);
      },
    };
  };
  const all = Object.entries(flags);
  return {
    names: Object.keys(flags),
    named: handlerOf,
    lettered: (letter) => handlerOf(all.find(([, flag]) => flag.letter === letter)?.[0]),
  };
}

/** Throws a FlagError. */
function checkedValue(name: string, flag: CommandFlag, text: string): string | undefined {
  const { letter, shown, values } = flag;
  const wrong = (reason: string, hint?: string): FlagError => {
    const flag = letter === undefined ? `--${name}` : `-${letter}, --${name}`;
    return new FlagError(
      `invalid argument ${quote(text)} for ${quote(flag)} flag: ${reason}`,
      hint,
    );
  };
  if (shown === '') {
    const parsed = parseBool(text);
    if (!parsed.ok) throw wrong(parsed.error);
    return parsed.value ? 'true' : undefined;
  }
  if (values === undefined) return text;
  const isKnown = values.some((value) => {
    return value.endsWith('=') ? text.startsWith(value) && text !== value : text === value;
  });
  if (isKnown) return text;
  const guess = values.includes(text) ? undefined : nearest(text, values);
  throw wrong(
    `must be one of ${shown.replaceAll('|', ', ')}`,
    guess === undefined ? '' : `did you mean ${guess}?`,
  );
}

async function flagsOfRun(given: string[]): Promise<FlagSet> {
  const [{ settingFlags }, { flagOf }] = await Promise.all([
    import('../config/flags.ts'),
    import('../config/settings/index.ts'),
  ]);
  return settingFlags((key, text) => given.push(`--${flagOf(key)}=${text}`));
}

function both(own: FlagSet, others: FlagSet): FlagSet {
  return {
    names: [...own.names, ...others.names],
    named: (name) => own.named(name) ?? others.named(name),
    lettered: (letter) => own.lettered(letter) ?? others.lettered(letter),
    hint: (name) => others.hint?.(name),
  };
}

function checkWords(command: Command, words: readonly string[]): void {
  const { argumentCount: [least, most] = [0, 0], offers } = command;
  if (words.length < least) throw new UsageError(`an argument is missing: ${command.arguments}`);
  if (words.length > most) throw new UsageError(`unexpected argument ${quote(words[most]!)}`);
  if (typeof offers === 'string' || offers === undefined) return;
  for (const word of words) {
    if (offers.includes(word)) continue;
    const guess = nearest(word, offers);
    const hint = guess === undefined ? '' : `; did you mean ${guess}?`;
    throw new UsageError(`${quote(word)} is not one of ${offers.join(', ')}${hint}`);
  }
}
