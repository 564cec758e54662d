/** Finds and runs the command. */
import { isatty } from 'node:tty';
import { nearest } from '../config/spelling.ts';
import { readArguments } from './arguments.ts';
import { type Command, fullName, type Io } from './command.ts';
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
