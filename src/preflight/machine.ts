/** What is read of the machine, and never written. Tests give another root. */
import { accessSync, constants, readdirSync, readlinkSync, statSync } from 'node:fs';
import { hostFiles } from '../host/files.ts';

export interface Machine {
  /** Without the white space around it; undefined when there is no such file. */
  read(path: string): string | undefined;
  /** Names in a directory; none where it can't be read. */
  list(path: string): readonly string[];
  /** Where a symbolic link leads; undefined where it can't be read. */
  link(path: string): string | undefined;
  /** Of the file; undefined where there is none. */
  inode(path: string): number | undefined;
  /** Whether this process may write the file, which this does not do. */
  isWritable(path: string): boolean;
}

/** `root` is put before every path. */
export function thisMachine(root = ''): Machine {
  return {
    read: hostFiles(root).read,
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

/** Processes end while they are looked at, and others' may not be looked at. */
function orUndefined<T>(ask: () => T): T | undefined {
  try {
    return ask();
  } catch {
    return undefined;
  }
}
