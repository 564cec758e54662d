/** `fairlead config`: convert other configurations into kube-proxy's, and check a file. */
import { readFile } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { convert, type ImportSource, validateFile } from '../tools/import/index.ts';
import type { Given, Io, Run } from './command.ts';
import { UsageError } from './errors.ts';

const standardInput = '-';

export const runValidate: Run = (given, io) => {
  return onFile(given, io, (path, bytes) => validateFile(path, bytes));
};

export const runConvert: Run = async (given, io) => {
  const { from } = given.values;
  if (from === undefined) throw new UsageError('--from is missing');
  // The table of commands has no other value.
  return onFile(given, io, (_, bytes) => convert(from as ImportSource, bytes));
};

type Act = (path: string, bytes: Uint8Array) => ReturnType<typeof convert>;

async function onFile({ words: [word = ''] }: Given, io: Io, act: Act): Promise<number> {
  const { readFile: read = readFile, readStdin = () => buffer(process.stdin) } = io;
  const isInput = word === standardInput;
  const path = isInput ? 'standard input' : word;
  let bytes: Uint8Array;
  try {
    bytes = await (isInput ? readStdin() : read(path));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`cannot read ${path}: ${reason}`);
  }
  const { exitCode, notes, text } = act(path, bytes);
  for (const note of notes) io.stderr.write(`${note}\n`);
  io.stdout.write(text);
  return exitCode;
}
