/** Notices changes of the configuration file. */
import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { DirectoryWatcher } from '../source/directory-watcher.ts';

/** A file counts as written when it has not changed for this time. */
const settleMs = 100;
const rescanDefaultMs = 2000;

interface ConfigFileOptions {
  readonly path: string;
  /** The content at the last read. */
  readonly content: Uint8Array;
  /** How often it is read without an event: targets of symbolic links have none. Default 2000. */
  readonly rescanMs?: number;
}

/** The content, or why it cannot be read. */
export type Seen = Uint8Array | Error;

/**
 * Watches the directory, not the file: editors replace the file by a new one, and a ConfigMap's
 * volume replaces the symbolic link `..data` in the same directory (behaviour document 1.4).
 */
export class ConfigFile {
  readonly #path: string;
  readonly #watcher: DirectoryWatcher;
  /** The content that was reported last. */
  #reported: Seen;
  /** The current content, and since when (performance.now), while it may still change. */
  #fresh: { readonly seen: Seen; readonly sinceMs: number } | undefined;

  constructor({ path, content, rescanMs = rescanDefaultMs }: ConfigFileOptions) {
    this.#path = path;
    this.#reported = content;
    this.#watcher = new DirectoryWatcher(dirname(path), rescanMs);
  }

  /**
   * Watches until `signal` aborts. Reports each new content, and once per outage why the file
   * cannot be read.
   */
  async watch(signal: AbortSignal, report: (seen: Seen) => void): Promise<void> {
    try {
      while (!signal.aborted) {
        await this.#follow();
        const seen = this.#look();
        if (seen !== undefined) report(seen);
        await this.#watcher.next(signal, this.#fresh === undefined ? undefined : settleMs);
      }
    } finally {
      this.#watcher.close();
    }
  }

  /** Starts to watch before the file is read, so that a change in between causes an event. */
  async #follow(): Promise<void> {
    try {
      this.#watcher.follow((await stat(dirname(this.#path), { bigint: true })).ino);
    } catch {
      // Without inotify changes are seen at the next rescan; without a directory there is no file.
    }
  }

  /** The new content, once it has not changed for `settleMs`. */
  #look(): Seen | undefined {
    const seen = this.#read();
    if (same(seen, this.#reported)) {
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
    this.#reported = seen;
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
