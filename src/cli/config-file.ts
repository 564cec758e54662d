/** Notices changes of the configuration file. */
import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DirectoryWatcher } from '../source/directory-watcher.ts';

/** A file counts as written when it stays the same for so long. */
const settleMs = 100;
const rescanDefaultMs = 2000;

interface ConfigFileOptions {
  readonly path: string;
  /** What it held when it was last read. */
  readonly content: Uint8Array;
  /** How often it is read without an event: targets of symbolic links have none. Default 2000. */
  readonly rescanMs?: number;
}

/** The content, or why there is none. */
export type Seen = Uint8Array | Error;

/**
 * Watches the directory, not the file: editors put a new file in its place, and a ConfigMap's
 * volume swaps the symbolic link `..data` beside it (behaviour document 1.4).
 */
export class ConfigFile {
  readonly #path: string;
  readonly #watcher: DirectoryWatcher;
  /** What was told last. */
  #told: Seen;
  /** What it is now, and since when (performance.now), while that may still change. */
  #fresh: { readonly seen: Seen; readonly sinceMs: number } | undefined;

  constructor({ path, content, rescanMs = rescanDefaultMs }: ConfigFileOptions) {
    this.#path = path;
    this.#told = content;
    this.#watcher = new DirectoryWatcher(dirname(path), rescanMs);
  }

  /**
   * Watches until `signal` aborts. Tells each new content, and once for each outage why the file
   * cannot be read.
   */
  async watch(signal: AbortSignal, told: (seen: Seen) => void): Promise<void> {
    try {
      while (!signal.aborted) {
        await this.#follow();
        const seen = this.#look();
        if (seen !== undefined) told(seen);
        await this.#watcher.next(signal, this.#fresh === undefined ? undefined : settleMs);
      }
    } finally {
      this.#watcher.close();
    }
  }

  /** Starts to watch before the file is read, so that a change in between gives an event. */
  async #follow(): Promise<void> {
    try {
      this.#watcher.follow((await stat(dirname(this.#path), { bigint: true })).ino);
    } catch {
      // Without inotify changes are seen at the next rescan; without a directory there is no file.
    }
  }

  /** The new content, when it has stayed the same for `settleMs`. */
  #look(): Seen | undefined {
    const seen = this.#read();
    if (same(seen, this.#told)) {
      this.#fresh = undefined;
      return undefined;
    }
    const nowMs = performance.now();
    if (this.#fresh === undefined || !same(seen, this.#fresh.seen)) {
      this.#fresh = { seen, sinceMs: nowMs };
      return undefined;
    }
    // Timers may fire a little early.
    if (nowMs - this.#fresh.sinceMs < settleMs - 1) return undefined;
    this.#fresh = undefined;
    this.#told = seen;
    return seen;
  }

  #read(): Seen {
    try {
      return readFileSync(this.#path);
    } catch (error) {
      return error as Error;
    }
  }
}

function same(a: Seen, b: Seen): boolean {
  if (a instanceof Error || b instanceof Error) {
    return a instanceof Error && b instanceof Error && a.message === b.message;
  }
  return Buffer.compare(a, b) === 0;
}
