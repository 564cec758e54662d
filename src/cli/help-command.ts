/** `fairlead help [COMMAND]`. */
import { nearest } from '../config/spelling.ts';
import type { Run } from './command.ts';
import { commandNames, commandsNamed, isCalled } from './commands.ts';
import { exitCodes, UsageError } from './errors.ts';
import { helpOf } from './help.ts';

export const run: Run = async ({ words }, { stdout }) => {
  stdout.write(await helpOf(subjectOf(words)));
  return exitCodes.healthy;
};

/** The words of a command, or of a group of commands. Throws a UsageError. */
function subjectOf(words: readonly string[]): readonly string[] {
  const [first, second, ...more] = words.filter((word) => word !== '-h' && word !== '--help');
  if (first === undefined) return words.length === 0 ? [] : ['help'];
  if (first === 'flags' && second === undefined) return ['run'];
  const found = commandsNamed(first).filter(({ group }) => group !== undefined);
  const command = found.find((one) => one.words.length === 1 || isCalled(one, 1, second ?? ''));
  const extra = command?.words.length === 1 ? second : more[0];
  if (found.length > 0 && extra === undefined) {
    if (command !== undefined) return command.words;
    if (second === undefined) return found[0]!.words.slice(0, 1);
  }
  const wrong = found.length === 0 ? first : (extra ?? second!);
  const known =
    found.length === 0 ? [...commandNames, 'flags'] : found.flatMap((one) => one.words.slice(1));
  const guess = nearest(wrong, known);
  const hint = guess === undefined ? '' : `; did you mean ${guess}?`;
  throw new UsageError(`unknown command "${wrong}"${hint}`);
}
