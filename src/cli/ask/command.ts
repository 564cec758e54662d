/** The common part of commands that ask the running process: options, output, exit codes. */
import type { Answer, EndpointName } from '../../ask/endpoints.ts';
import { type CommandOption, usage } from '../../config/commands.ts';
import { type ExitCode, exitCodes } from '../exit-codes.ts';
import { toYAML } from '../output.ts';
import { type Clock, Reader, realClock, type Surroundings, surroundings } from '../reader.ts';
import type { Terminal } from '../terminal.ts';
import { changedLines } from './changed-lines.ts';
import { ask, type Query, RefusedError, UnreachableError } from './client.ts';
import { type AskOptions, readOptions, UsageError } from './options.ts';

/** A command: its question, and how its answer is printed. */
export interface AskCommand<Name extends EndpointName> {
  readonly question: Name;
  /** The options of the command. Default: the options of all such commands. */
  readonly options?: Readonly<Record<string, CommandOption>>;
  /** The parameters of the question. Throws a UsageError. */
  readonly query: (given: AskOptions) => Query<Name>;
  /** The answer as text for people; wide = with all columns. */
  readonly print: (answer: Answer<Name>, wide: boolean) => string;
  /** The lines whose changes --watch prints. Default: those of `print`. */
  readonly steadyLines?: (answer: Answer<Name>) => string[];
  /** How to read all pages, if an answer may be one of several. */
  readonly pages?: {
    /** The parameters that ask for the next page; undefined = this was the last one. */
    next(answer: Answer<Name>): Partial<Query<Name>> | undefined;
    join(pages: readonly Answer<Name>[]): Answer<Name>;
  };
  /** Whether the answer reports no problem. Default: it never does. */
  readonly isHealthy?: (answer: Answer<Name>) => boolean;
}

export interface AskIo {
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  /** Default: those of the process. */
  readonly clock?: Clock;
  readonly surroundings?: Surroundings;
}

const watchMs = 2000;

/** Who reads what a command prints that goes on by itself. */
export function readerOf({ stdout, clock = realClock, surroundings: given }: AskIo): Reader {
  return new Reader(stdout, clock, given ?? surroundings());
}

/** `word` is the command's name. Resolves to the exit code. */
export async function runAsk<Name extends EndpointName>(
  word: string,
  command: AskCommand<Name>,
  args: readonly string[],
  io: AskIo,
): Promise<ExitCode> {
  try {
    const given = readOptions(args, command.options);
    const query = command.query(given);
    const answer = await askAll(given.server, command, query);
    if (given.watch) return await watch(command, answer, given, io);
    io.stdout.write(render(command, answer, given));
    return codeOf(command, answer);
  } catch (error) {
    return explain(error, word, io);
  }
}

/** Prints `first`, and then what changes, until nobody reads any more. */
async function watch<Name extends EndpointName>(
  command: AskCommand<Name>,
  first: Answer<Name>,
  given: AskOptions,
  io: AskIo,
): Promise<ExitCode> {
  const reader = readerOf(io);
  const query = command.query(given);
  const linesOf = command.steadyLines ?? ((answer) => command.print(answer, true).split('\n'));
  const isTable = given.output === 'table' || given.output === 'wide';
  let answer = first;
  try {
    io.stdout.redraw(render(command, answer, given));
    for (let before = linesOf(answer); ; ) {
      await reader.pause(watchMs);
      if (reader.signal.aborted) break;
      answer = await askAll(given.server, command, query);
      const now = linesOf(answer);
      const changes = changedLines(before, now, new Date().toISOString());
      before = now;
      if (io.stdout.isTTY && isTable) io.stdout.redraw(render(command, answer, given));
      else if (changes === '' || io.stdout.isPending) continue;
      else if (isTable) io.stdout.write(changes);
      else
        io.stdout.write((given.output === 'yaml' ? '---\n' : '') + render(command, answer, given));
    }
  } finally {
    reader.close();
  }
  if (reader.reason !== undefined) io.stderr.write(`fairlead: --watch: ${reader.reason}\n`);
  return codeOf(command, answer);
}

/** How often all pages are asked for, if the Service that one ended with has gone meanwhile. */
const attemptsMax = 5;

async function askAll<Name extends EndpointName>(
  server: string,
  command: AskCommand<Name>,
  query: Query<Name>,
): Promise<Answer<Name>> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await askPages(server, command, query);
    } catch (error) {
      const isGone = error instanceof RefusedError && error.isGone;
      if (!isGone || attempt === attemptsMax) throw error;
    }
  }
}

async function askPages<Name extends EndpointName>(
  server: string,
  { pages, question }: AskCommand<Name>,
  query: Query<Name>,
): Promise<Answer<Name>> {
  const first = await ask(server, question, query);
  if (pages === undefined) return first;
  const all = [first];
  for (let next = pages.next(first); next !== undefined; next = pages.next(all.at(-1)!)) {
    all.push(await ask(server, question, { ...query, ...next }));
  }
  return pages.join(all);
}

function codeOf<Name extends EndpointName>(
  command: AskCommand<Name>,
  answer: Answer<Name>,
): ExitCode {
  const isHealthy = command.isHealthy?.(answer) ?? true;
  return isHealthy ? exitCodes.healthy : exitCodes.unhealthy;
}

function render<Name extends EndpointName>(
  command: AskCommand<Name>,
  answer: Answer<Name>,
  { output }: AskOptions,
): string {
  if (output === 'json') return `${JSON.stringify(answer, undefined, 2)}\n`;
  if (output === 'yaml') return toYAML(answer);
  return command.print(answer, output === 'wide');
}

/** Prints why the command `word` failed. Throws errors that are not expected. */
export function explain(error: unknown, word: string, { stderr }: AskIo): ExitCode {
  if (error instanceof UsageError) {
    stderr.write(`${usage(word)}\nError: ${error.message}\n`);
    return exitCodes.usage;
  }
  if (error instanceof RefusedError) {
    stderr.write(`Error: ${error.message}\n`);
    return exitCodes.unhealthy;
  }
  if (error instanceof UnreachableError) {
    stderr.write(`Error: ${error.message}\n`);
    return exitCodes.unreachable;
  }
  throw error;
}

/** Throws a UsageError if there are arguments: the command takes none. */
export function noWords({ words }: AskOptions): void {
  if (words.length > 0) throw new UsageError(`unknown argument "${words[0]}"`);
}
