/** `fairlead bundle`: the facts about this node that a bug report needs, as one archive. */
import { serverOf } from '../ask/server.ts';
import type { Run } from '../command.ts';
import { exitCodes, UsageError } from '../errors.ts';
import { collectBundle } from './collect.ts';

export const run: Run = async (given, { stdout }) => {
  if (stdout.isTTY) throw new UsageError('write the archive to a file: fairlead bundle > FILE.tar');
  const files = await collectBundle(await serverOf(given));
  const named = files.map(({ name, text }) => ({ name: `fairlead-bundle/${name}`, text }));
  stdout.writeArchive(ustar(named, Date.now()));
  return exitCodes.healthy;
};

interface ArchivedFile {
  /** At most 100 bytes of ASCII. */
  readonly name: string;
  readonly text: string;
}

const blockBytes = 512;

/**
 * An archive in the POSIX format ustar, which every tar reads. `timeMs`: milliseconds since the
 * epoch, of all files.
 */
export function ustar(files: readonly ArchivedFile[], timeMs: number): Uint8Array {
  const blocks = files.flatMap(({ name, text }) => {
    const body = Buffer.from(text);
    const rest = Buffer.alloc((blockBytes - (body.length % blockBytes)) % blockBytes);
    return [header(name, body.length, timeMs), body, rest];
  });
  return Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)]);
}

function header(name: string, size: number, timeMs: number): Uint8Array {
  const block = Buffer.alloc(blockBytes);
  const octal = (value: number, at: number, digits: number): void => {
    block.write(value.toString(8).padStart(digits, '0'), at, 'latin1');
  };
  block.write(name, 0, 100, 'latin1');
  octal(0o644, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(Math.floor(timeMs / 1000), 136, 11);
  // The checksum is computed with spaces in its own field.
  block.write('        0ustar\u000000', 148, 'latin1');
  const sum = block.reduce((total, byte) => total + byte, 0);
  octal(sum, 148, 6);
  block[154] = 0;
  return block;
}
