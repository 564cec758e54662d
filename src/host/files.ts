/** Reads and writes files of /proc and /sys. Tests give another root. */
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  writeSync,
} from 'node:fs';

export interface ReadableFiles {
  /** Without the white space around it; undefined when there is no such file. */
  read(path: string): string | undefined;
}

export interface FolderFiles extends ReadableFiles {
  /** The names in a folder; none where there is no such folder. */
  list(path: string): readonly string[];
}

export interface HostFiles extends ReadableFiles {
  /** Throws an Error of one line that names the path. */
  write(path: string, text: string): void;
}

/** Without O_CREAT: a file that is not there is a setting that this kernel does not have. */
const overwrite = constants.O_WRONLY | constants.O_TRUNC;

/**
 * Where a container may have what runtimes make read-only for containers without all privileges, as
 * our init container has `/proc/sys/net`.
 */
const writable = '/host';

/** `root` is put before every path. */
export function hostFiles(root = ''): HostFiles & FolderFiles {
  return {
    read: (path) => {
      try {
        return readFileSync(root + path, 'utf8').trim();
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    list: (path) => {
      try {
        return readdirSync(root + path);
      } catch (error) {
        if (isMissing(error)) return [];
        throw error;
      }
    },
    write: (path, text) => {
      const file = openToWrite(root, path);
      try {
        writeSync(file, text);
      } finally {
        closeSync(file);
      }
    },
  };
}

function openToWrite(root: string, path: string): number {
  try {
    return openSync(root + path, overwrite);
  } catch (error) {
    const other = `${root}${writable}${path}`;
    const isReadOnly = error instanceof Error && 'code' in error && error.code === 'EROFS';
    if (!isReadOnly || !existsSync(other)) throw error;
    return openSync(other, overwrite);
  }
}

function isMissing(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
