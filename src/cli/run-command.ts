/** Finds and runs the command. */
import { isatty } from 'node:tty';
import { FlagError, type FlagHandler, type FlagSet, readFlags } from '../config/flag-syntax.ts';
import { parseBool, quote } from '../config/go-values.ts';
import { nearest } from '../config/spelling.ts';
import { type Command, type CommandFlag, fullName, type Given, type Io } from './command.ts';
import { commandNames, commandsNamed, isCalled } from './commands.ts';
import { describeError, exitCodes, RefusedError, UnreachableError, UsageError } from './errors.ts';
import { terminal } from './terminal.ts';

/** Resolves to the exit code. */
export async function runCommand(args: readonly string[], io: Io = terminal): Promise<number> {
  const [first] = args;
  const isFlag = first === undefined || first === '' || first.startsWith('-');
  try {
    if (args.length === 0 && isTrial()) return await printHelp([], io);
    if (args.length === 1 && isHelpFlag(first)) return await printHelp([], io);
    // The word run is optional.
    if (isFlag) return await runCommand(['run', ...args], io);
    const { command, rest } = findCommand(args);
    if (command === undefined) return await printHelp([first], io);
    if (asksForHelp(command, rest)) return await printHelp(command.words, io);
    const { run } = await command.load();
    const given = await readArguments(command, rest);
    return await run(given, io);
  } catch (error) {
    return fail(error, args, io);
  }
}

/** Whether a person has started it at a terminal, outside of any cluster. */
function isTrial(): boolean {
  // Not `process.stderr.isTTY`: that makes a pipe non-blocking, which other processes share.
  return isatty(1) && isatty(2) && (process.env.KUBERNETES_SERVICE_HOST ?? '') === '';
}

/** Whether a command that parses its arguments itself got only a request for help. */
function asksForHelp({ group, isRaw }: Command, rest: readonly string[]): boolean {
  const isAlone = isRaw !== true || rest.length === 1;
  return group !== undefined && isAlone && rest.some(isHelpFlag);
}

function isHelpFlag(word: string | undefined): boolean {
  return word === '-h' || word === '--help';
}

async function printHelp(words: readonly string[], io: Io): Promise<number> {
  const { helpOf } = await import('./help.ts');
  io.stdout.write(await helpOf(words));
  return exitCodes.healthy;
}

interface Found {
  /** Undefined: `args` request the help of a group of commands. */
  readonly command: Command | undefined;
  readonly rest: readonly string[];
}

/** The command with which `args` begin. Throws a UsageError. */
export function findCommand(args: readonly string[]): Found {
  const [first = '', second] = args;
  const found = commandsNamed(first);
  if (found.length === 0) throw unknown(first, 'fairlead', commandNames);
  const [only] = found;
  if (only!.words.length === 1) return { command: only, rest: args.slice(1) };
  const name = `fairlead ${only!.words[0]}`;
  const verbs = found.map(({ words }) => words[1]!);
  if (isHelpFlag(second)) return { command: undefined, rest: [] };
  if (second === undefined || second.startsWith('-')) {
    throw new UsageError(`${name} needs a command: ${verbs.join(' or ')}`);
  }
  const command = found.find((one) => isCalled(one, 1, second));
  if (command !== undefined) return { command, rest: args.slice(2) };
  throw unknown(second, name, [...verbs, ...found.flatMap(({ aliases }) => aliases?.[1] ?? [])]);
}

function unknown(word: string, parent: string, known: readonly string[]): UsageError {
  const guess = nearest(word, known);
  const hint = guess === undefined ? '' : `; did you mean ${guess}?`;
  return new UsageError(`unknown command "${word}" for "${parent}"${hint}`);
}

const whereElse =
  'Fairlead does not run on this node, does not answer, or has another metricsBindAddress: ' +
  'for that, give --server or --config.';

/** Prints why a command has failed; returns the exit code. */
async function fail(error: unknown, args: readonly string[], { stderr }: Io): Promise<number> {
  const isWrong =
    error instanceof UsageError || (error instanceof RefusedError && error.isWrongQuestion);
  if (isWrong) {
    stderr.write(`Error: ${error.message}\nSee '${helpCommand(args)} --help'\n`);
    return exitCodes.usage;
  }
  if (error instanceof RefusedError) {
    stderr.write(`Error: ${error.message}\n`);
    return exitCodes.unhealthy;
  }
  if (error instanceof UnreachableError) {
    stderr.write(`Error: ${error.message}\n${whereElse}\n`);
    return exitCodes.unreachable;
  }
  stderr.write(`Error: ${describeError(error)}\n`);
  return exitCodes.unhealthy;
}

/** The command whose help describes `args`. */
function helpCommand([first = '', second = '']: readonly string[]): string {
  const found = commandsNamed(first);
  const command =
    found.find(({ words }) => words.length === 1) ?? found.find((one) => isCalled(one, 1, second));
  if (command !== undefined) return fullName(command);
  return found.length === 0 ? 'fairlead' : `fairlead ${found[0]!.words[0]}`;
}

/** By the entry of the command in the table. Rejects with a UsageError. */
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
