import { createHash } from 'node:crypto';
import { type BigIntStats, lstatSync, readFileSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pacer } from '../../time/pacer.ts';
import type { DecodeContext } from '../decode.ts';
import type { SourceProblem } from '../source.ts';
import { decodeManifests, type ManifestObjects } from './objects.ts';
import { bytesHereMax, readManifest } from './read.ts';

const extensions = /\.(?:ya?ml|json)$/;

/** Whether a file with this name is read. */
export function isManifest(name: string): boolean {
  return extensions.test(name) && !name.startsWith('.');
}

const fileBytesMax = 64 * 1024 * 1024;
/** The most bytes to hash in one turn, which takes at most 2 ms. */
const hashedAtOnce = 1024 * 1024;
/**
 * A file that is empty, broken or missing counts as such after this time: shells truncate a file
 * before they write it, and editors first move the old file away.
 */
export const graceMs = 50;

/** Threads take ten times as long for a small file that was written just now, and is in memory. */
const here = {
  stat: (path: string) => lstatSync(path, { bigint: true }),
  read: (path: string) => readFileSync(path),
};
const onThreads = {
  stat: (path: string) => stat(path, { bigint: true }),
  read: (path: string) => readFile(path),
};

interface ManifestFile {
  /** Changes whenever the file does; for an unreadable file, the reason. */
  readonly identity: string;
  readonly contentHash: string;
  /** The number of its names; undefined: not known. */
  readonly links: bigint | undefined;
  /** Its last valid objects. */
  readonly objects: ManifestObjects;
  /** performance.now() when it was first found missing; undefined while it exists. */
  readonly missingSinceMs: number | undefined;
}

const nothing: ManifestFile = {
  identity: '',
  contentHash: '',
  links: undefined,
  objects: new Map(),
  missingSinceMs: undefined,
};

type Reader = typeof here | typeof onThreads;

type Loaded =
  | { readonly kind: 'read'; readonly file: ManifestFile; readonly problems: SourceProblem[] }
  /** It may still be being written. */
  | { readonly kind: 'unsettled' }
  | { readonly kind: 'missing' };

interface Scan {
  readonly problems: readonly SourceProblem[];
  /**
   * `unsettled`: look again after `graceMs`. `plain`: settled, and what is written into a file is
   * an event of the directory, since no file has another name.
   */
  readonly state: 'plain' | 'settled' | 'unsettled';
}

/** The last valid content of each manifest in a directory. */
export class ManifestDirectory {
  readonly #path: string;
  readonly #context: DecodeContext;
  readonly #pacer: Pacer;
  #files = new Map<string, ManifestFile>();

  constructor(path: string, context: DecodeContext, pacer: Pacer) {
    this.#path = path;
    this.#context = context;
    this.#pacer = pacer;
  }

  /** Objects of each file, in the order of file names. */
  *contents(): Generator<readonly [file: string, objects: ManifestObjects]> {
    for (const name of [...this.#files.keys()].sort()) yield [name, this.#files.get(name)!.objects];
  }

  /**
   * Reads what changed. `hinted` files are read even if they look unchanged: a file system's clock
   * is coarse. Rejects if the directory itself cannot be read; then nothing changes.
   */
  async scan(hinted: ReadonlySet<string>): Promise<Scan> {
    const entries = await readdir(this.#path, { withFileTypes: true });
    const manifests = entries.filter(({ name }) => isManifest(name));
    const found = manifests.map(({ name }) => name);
    const names = new Set([...found, ...this.#files.keys()]);
    const scan = await this.#scan(names, hinted, onThreads);
    const isPlain = scan.state === 'plain' && manifests.every((entry) => entry.isFile());
    return isPlain || scan.state !== 'plain' ? scan : { ...scan, state: 'settled' };
  }

  /** Whether all manifests of these are known, and there is one. */
  hasAll(hinted: ReadonlySet<string>): boolean {
    const names = [...hinted].filter(isManifest);
    return names.length > 0 && names.every((name) => this.#files.has(name));
  }

  /** The same of these files alone, in a directory of this machine. A link counts as missing. */
  scanOnly(hinted: ReadonlySet<string>): Promise<Scan> {
    return this.#scan([...hinted].filter(isManifest), hinted, here);
  }

  async #scan(names: Iterable<string>, hinted: ReadonlySet<string>, reader: Reader): Promise<Scan> {
    let isPlain = true;
    const files = new Map(this.#files);
    const problems: SourceProblem[] = [];
    let state: Scan['state'] = 'settled';
    for (const name of names) {
      const before = this.#files.get(name) ?? nothing;
      const loaded = await this.#load(
        name,
        hinted.has(name) ? { ...before, identity: '' } : before,
        reader,
      );
      if (loaded.kind === 'read') {
        files.set(name, loaded.file);
        isPlain &&= loaded.file.links === 1n;
        problems.push(...loaded.problems);
      } else if (loaded.kind === 'unsettled') {
        files.set(name, before);
        state = 'unsettled';
      } else if (this.#files.has(name)) {
        const missingSinceMs = before.missingSinceMs ?? performance.now();
        if (performance.now() - missingSinceMs >= graceMs) files.delete(name);
        else {
          files.set(name, { ...before, missingSinceMs });
          state = 'unsettled';
        }
      }
    }
    this.#files = files;
    return { problems, state: state === 'settled' && isPlain ? 'plain' : state };
  }

  async #load(name: string, before: ManifestFile, reader: Reader): Promise<Loaded> {
    try {
      const path = join(this.#path, name);
      const status = await reader.stat(path);
      if (!status.isFile()) return { kind: 'missing' };
      if (before.identity === identityOf(status)) {
        return { kind: 'read', file: { ...before, missingSinceMs: undefined }, problems: [] };
      }
      if (status.size > fileBytesMax) throw new Error('larger than 64 MiB');
      const bytes = await (status.size > bytesHereMax ? onThreads : reader).read(path);
      const after = await reader.stat(path);
      // It was written or replaced while being read, so the content may be incomplete.
      if (identityOf(after) !== identityOf(status)) return { kind: 'unsettled' };
      return await this.#parse(name, bytes, before, status);
    } catch (error) {
      if (isMissing(error)) return { kind: 'missing' };
      const reason = `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
      // Reported once, not at every scan.
      const said = before.identity === reason;
      const problems = said ? [] : [{ subject: name, field: undefined, reason }];
      return { kind: 'read', file: { ...before, identity: reason }, problems };
    }
  }

  async #parse(
    name: string,
    bytes: Buffer,
    before: ManifestFile,
    status: BigIntStats,
  ): Promise<Loaded> {
    const file = {
      identity: identityOf(status),
      contentHash: await hashOf(bytes, this.#pacer),
      links: status.nlink,
      objects: before.objects,
      missingSinceMs: undefined,
    };
    if (file.contentHash === before.contentHash) return { kind: 'read', file, problems: [] };
    const ageMs = Date.now() - Number(status.mtimeMs);
    const fresh = ageMs >= 0 && ageMs < graceMs;
    if (bytes.length === 0 && fresh) return { kind: 'unsettled' };
    // A writer leaves an empty file when its disk is full. To remove objects, remove the file.
    if (bytes.length === 0 && before.objects.size > 0) {
      const reason = 'is empty; its last good content stays in force';
      return { kind: 'read', file, problems: [{ subject: name, field: undefined, reason }] };
    }
    const { found, problems, unreadable } = await readManifest(name, bytes, this.#pacer);
    if (unreadable.length > 0 && fresh) return { kind: 'unsettled' };
    const extent = unreadable.length > 0 ? 'part' : 'all';
    const previous = before.objects;
    const content = { file: name, found, previous, extent } as const;
    const decoded = await decodeManifests(content, this.#context, this.#pacer);
    const kept = previous.size > 0 ? '; its last good content stays in force' : '';
    const failed = unreadable.map(({ line, reason }) => {
      return { subject: `${name}:${line}`, field: undefined, reason: `${reason}${kept}` };
    });
    return {
      kind: 'read',
      file: { ...file, objects: decoded.objects },
      problems: [...failed, ...problems, ...decoded.problems],
    };
  }
}

async function hashOf(bytes: Buffer, pacer: Pacer): Promise<string> {
  const hash = createHash('sha1');
  for (let at = 0; at < bytes.length; at += hashedAtOnce) {
    if (pacer.due) await pacer.rest();
    hash.update(bytes.subarray(at, at + hashedAtOnce));
  }
  return hash.digest('base64');
}

function identityOf(status: BigIntStats): string {
  const { dev, ino, size, mtimeNs, ctimeNs } = status;
  return [dev, ino, size, mtimeNs, ctimeNs].join(':');
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
