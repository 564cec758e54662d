import { closeSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

/** One object of an archive. Paths are absolute, as the guest sees them. Owner is always root. */
export type Entry =
  | { readonly kind: 'directory'; readonly path: string }
  | { readonly kind: 'link'; readonly path: string; readonly target: string }
  | { readonly kind: 'script'; readonly path: string; readonly text: string }
  | { readonly kind: 'text'; readonly path: string; readonly text: string }
  | { readonly kind: 'copy'; readonly path: string; readonly hostPath: string };

/** Type bits and permissions, as in st_mode. */
const modes = { directory: 0o040755, link: 0o120777, program: 0o100755, data: 0o100644 } as const;

/**
 * Encodes an archive in the "newc" form that the kernel unpacks (kernel documentation,
 * "initramfs buffer format"). Directories that entries need come before them; where two entries
 * have the same path the first one counts.
 */
export function* encodeArchive(entries: Iterable<Entry>): Generator<Buffer> {
  const done = new Set<string>(['/']);
  for (const entry of entries) {
    for (const path of missingParents(entry.path, done)) {
      done.add(path);
      yield* encode({ kind: 'directory', path });
    }
    if (done.has(entry.path)) continue;
    done.add(entry.path);
    yield* encode(entry);
  }
  yield* record({ name: 'TRAILER!!!', mode: 0 }, Buffer.alloc(0));
}

/** Writes the archive to a file, uncompressed: to unpack it would take the emulator longer. */
export function writeArchive(path: string, entries: Iterable<Entry>): void {
  const file = openSync(path, 'w');
  try {
    for (const chunk of encodeArchive(entries)) {
      for (let offset = 0; offset < chunk.length; ) offset += writeSync(file, chunk, offset);
    }
  } finally {
    closeSync(file);
  }
}

/**
 * What `read` returns; undefined if what it reads is gone. Others make files for a moment while the
 * project is read, and replace folders of build.
 */
export function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function missingParents(path: string, done: ReadonlySet<string>): string[] {
  const parents: string[] = [];
  for (let parent = dirname(path); !done.has(parent); parent = dirname(parent)) {
    parents.unshift(parent);
  }
  return parents;
}

function* encode(entry: Entry): Generator<Buffer> {
  const name = entry.path.slice(1);
  switch (entry.kind) {
    case 'directory':
      return yield* record({ name, mode: modes.directory }, Buffer.alloc(0));
    case 'link':
      return yield* record({ name, mode: modes.link }, Buffer.from(entry.target));
    case 'script':
      return yield* record({ name, mode: modes.program }, Buffer.from(entry.text));
    case 'text':
      return yield* record({ name, mode: modes.data }, Buffer.from(entry.text));
    case 'copy': {
      const stat = unlessGone(() => statSync(entry.hostPath));
      const content = unlessGone(() => readFileSync(entry.hostPath));
      if (stat === undefined || content === undefined) return;
      const mode = (stat.mode & 0o111) === 0 ? modes.data : modes.program;
      const mtimeS = Math.trunc(stat.mtimeMs / 1000);
      return yield* record({ name, mode, mtimeS }, content);
    }
  }
}

interface Header {
  readonly name: string;
  readonly mode: number;
  readonly mtimeS?: number;
}

/** | "070701" | 13 numbers of 8 hex digits | name, NUL, to 4 bytes | content, to 4 bytes | */
function* record({ name, mode, mtimeS = 0 }: Header, content: Buffer): Generator<Buffer> {
  const nameBytes = Buffer.from(`${name}\0`);
  const inode = 0;
  const owner = [0, 0];
  const links = 1;
  const devices = [0, 0, 0, 0];
  const checksum = 0;
  const numbers = [inode, mode, ...owner, links, mtimeS, content.length, ...devices];
  const fields = [...numbers, nameBytes.length, checksum];
  const text = fields.map((field) => field.toString(16).padStart(8, '0')).join('');
  const header = Buffer.concat([Buffer.from(`070701${text}`), nameBytes]);
  yield Buffer.concat([header, padding(header.length)]);
  yield content;
  yield padding(content.length);
}

/** Zeros from `length` to the next multiple of 4. */
function padding(length: number): Buffer {
  return Buffer.alloc(-length & 3);
}
