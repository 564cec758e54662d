/** The common part of commands that ask the running process: questions, output, exit codes. */
import type { Answer, EndpointName } from '../../ask/endpoints.ts';
import type { Block } from '../../ask/view.ts';
import { blocksText, type Form } from '../../serve/text.ts';
import type { Given, Io, Run } from '../command.ts';
import { type ExitCode, exitCodes, RefusedError } from '../errors.ts';
import { isForPeople, type Writer, writerOf } from '../output.ts';
import { whileRead } from '../reader.ts';
import { askPages, type Query } from './client.ts';
import { serverOf } from './server.ts';

/** A command: its question, and how to print the answer. */
interface AskCommand<Name extends EndpointName> {
  readonly question: Name;
  /** The parameters of the question. Throws a UsageError. */
  readonly query: (given: Given) => Query<Name>;
  /** The answer for people. */
  readonly view: (answer: Answer<Name>, form: Form) => readonly Block[];
  /** The names that `-o name` prints. */
  readonly names?: (answer: Answer<Name>) => readonly string[];
  /** What --watch prints the changes of: without values that change all the time. Default: `view`. */
  readonly steady?: (answer: Answer<Name>) => readonly Block[];
  /** What is made of all pages; default: as they are. */
  readonly sorted?: (answer: Answer<Name>) => Answer<Name>;
  /** Whether the answer reports no problem. Default: always true. */
  readonly isHealthy?: (answer: Answer<Name>, given: Given) => boolean;
}

const watchMs = 2000;

/** How the command runs. */
export function asking<Name extends EndpointName>(command: AskCommand<Name>): Run {
  return async (given, io) => {
    const query = command.query(given);
    const write = writerOf(given.values.output);
    const server = await serverOf(given);
    const answer = await askAll(server, command, query);
    if (given.values.watch) return watch(command, answer, { given, io, query, server, write });
    io.stdout.write(render(command, answer, { given, write }));
    return codeOf(command, answer, given);
  };
}

interface Watching<Name extends EndpointName> {
  readonly given: Given;
  readonly io: Io;
  readonly query: Query<Name>;
  readonly server: string;
  readonly write: Writer;
}

/** Prints `first`, then changes, until the output is no longer read. */
async function watch<Name extends EndpointName>(
  command: AskCommand<Name>,
  first: Answer<Name>,
  { given, io, query, server, write }: Watching<Name>,
): Promise<ExitCode> {
  const { output } = given.values;
  const form: Form = { wide: true, headings: true };
  const { steady = (one: Answer<Name>) => command.view(one, form) } = command;
  const linesOf = (one: Answer<Name>): string[] => blocksText(steady(one), form).split('\n');
  const isText = isForPeople(output);
  let answer = first;
  await whileRead(io, '--watch', async (reader) => {
    io.stdout.redraw(render(command, answer, { given, write }));
    for (let before = linesOf(answer); ; ) {
      await reader.pause(watchMs);
      if (reader.signal.aborted) break;
      answer = await askAll(server, command, query);
      const now = linesOf(answer);
      const changes = changedLines(before, now, new Date().toISOString());
      before = now;
      if (io.stdout.isTTY && isText) io.stdout.redraw(render(command, answer, { given, write }));
      else if (changes === '' || io.stdout.isPending) continue;
      else if (isText) io.stdout.write(changes);
      else io.stdout.write(render(command, answer, { given, write }));
    }
  });
  return codeOf(command, answer, given);
}

/** How often to start again if the Service with which a page ended is deleted in the meantime. */
const attemptsMax = 5;

async function askAll<Name extends EndpointName>(
  server: string,
  command: AskCommand<Name>,
  query: Query<Name>,
): Promise<Answer<Name>> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const answer = await askPages(server, command.question, query);
      return command.sorted?.(answer) ?? answer;
    } catch (error) {
      const isGone = error instanceof RefusedError && error.isGone;
      if (!isGone || attempt === attemptsMax) throw error;
    }
  }
}

function codeOf<Name extends EndpointName>(
  command: AskCommand<Name>,
  answer: Answer<Name>,
  given: Given,
): ExitCode {
  const isHealthy = command.isHealthy?.(answer, given) ?? true;
  return isHealthy ? exitCodes.healthy : exitCodes.unhealthy;
}

function render<Name extends EndpointName>(
  command: AskCommand<Name>,
  answer: Answer<Name>,
  { given, write }: Pick<Watching<Name>, 'given' | 'write'>,
): string {
  const { output, 'no-headers': noHeaders } = given.values;
  if (output === 'name' && command.names !== undefined) {
    return command
      .names(answer)
      .map((name) => `${name}\n`)
      .join('');
  }
  const form: Form = { wide: output === 'wide', headings: noHeaders === undefined };
  return write(answer, () => blocksText(command.view(answer, form), form));
}

/**
 * For `--watch`: each line that was removed and each that was added, after `time`:
 * `2026-01-01T00:00:02.000Z + Problem:  IPv4 is not up to date`. Wider columns are not a change.
 * Empty if nothing changed.
 */
export function changedLines(
  before: readonly string[],
  now: readonly string[],
  time: string,
): string {
  const [old, current] = [before.map(normal), now.map(normal)];
  return [
    ...without(old, current).map((line) => `${time} - ${line}\n`),
    ...without(current, old).map((line) => `${time} + ${line}\n`),
  ].join('');
}

function normal(line: string): string {
  return line.replace(/ {2,}/g, '  ').trim();
}

/** The lines that `from` has more often than `others`, as often as the difference. */
function without(from: readonly string[], others: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const line of others) left.set(line, (left.get(line) ?? 0) + 1);
  return from.filter((line) => {
    const count = left.get(line) ?? 0;
    left.set(line, count - 1);
    return count <= 0 && line !== '';
  });
}
