/** Command lines of documents, read as the program would. */
import { UsageError } from '../../../src/cli/errors.ts';
import { findCommand, readArguments } from '../../../src/cli/run-command.ts';
import { flagKeys } from '../../../src/config/settings/index.ts';

/** Blocks of documents that are to be typed. */
const block = /```(?:sh|console|)\n([\s\S]*?)```/g;
const anyBlock = /```[\s\S]*?```/g;
const call = /^\s*(?:kubectl .* -- |chroot \S+ |bin\/)?fairlead( [^|&>#]*)?/;

/** The lines of blocks, and the words between backticks in sentences. */
export function typedIn(document: string): string[] {
  const lines = [...document.matchAll(block)].flatMap(([, text]) => text!.split('\n'));
  const quoted = [...document.replace(anyBlock, '').matchAll(/`([^`\n]+)`/g)];
  return [...lines, ...quoted.map(([, words]) => words!)];
}

/** The arguments of a line that calls Fairlead; undefined = it calls something else. */
export function argumentsOf(line: string): string[] | undefined {
  const found = call.exec(line);
  if (found === null || /^\s*(?:bin\/)?fairlead[^ ]/.test(line)) return undefined;
  return (found[1] ?? '').trim().replace(/"/g, '').split(' ');
}

/** What is wrong with a command line; undefined = nothing. */
export async function wrong(words: readonly string[]): Promise<string | undefined> {
  if (words[0]?.startsWith('--')) {
    return words.find((word) => word.startsWith('--') && !isFlag(word));
  }
  try {
    const { command, rest } = findCommand(words);
    if (command !== undefined) await readArguments(command, rest);
    return undefined;
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}

/** Whether it is a flag of `fairlead run`. */
export function isFlag(word: string): boolean {
  return [...flagKeys.keys()].some((name) => `--${name}` === word.split('=')[0]);
}
