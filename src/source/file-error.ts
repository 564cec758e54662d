const meanings: Readonly<Record<string, string>> = {
  EACCES: 'may not be read (permission denied)',
  EISDIR: 'is a directory',
  ENOENT: 'does not exist',
  ENOTDIR: 'is not a directory',
};

/** Why a file or folder cannot be read, as a predicate; else the system's text. */
export function describeFileError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : '';
  return meanings[code] ?? error.message;
}
