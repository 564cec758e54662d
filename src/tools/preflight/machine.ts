/**
 * Reads files of the machine, and writes none: a file that cannot be read counts as missing. Tests
 * give another root.
 */
import { accessSync, constants, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import type { FolderFiles } from '../../host/files.ts';

export interface Machine extends FolderFiles {
  /** The target of a symbolic link; undefined when it can't be read. */
  link(path: string): string | undefined;
  /** The inode number of the file; undefined when there is no such file. */
  inode(path: string): number | undefined;
  /** Whether this process may write the file. It is not written. */
  isWritable(path: string): boolean;
}

/** `root` is put before every path. */
export function thisMachine(root = ''): Machine {
  return {
    read: (path) => orUndefined(() => readFileSync(root + path, 'utf8').trim()),
    list: (path) => orUndefined(() => readdirSync(root + path)) ?? [],
    link: (path) => orUndefined(() => readlinkSync(root + path)),
    inode: (path) => orUndefined(() => statSync(root + path).ino),
    isWritable: (path) =>
      orUndefined(() => {
        accessSync(root + path, constants.W_OK);
        return true;
      }) ?? false,
  };
}

/** Undefined on any error: processes end while they are read, and some may not be read. */
function orUndefined<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}
