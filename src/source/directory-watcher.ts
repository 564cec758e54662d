import { type FSWatcher, watch } from 'node:fs';
import { systemClock, Wakeup } from '../time/clock.ts';

/** How long to wait for silence after an event, so that a file is not read while it is written. */
const quietMs = 10;
/** The longest wait for silence. */
const unquietMaxMs = 50;

/**
 * Reports that a directory may have changed: after inotify events, and every `rescanMs`, because
 * inotify does not report all changes (targets of symbolic links, network file systems).
 */
export class DirectoryWatcher {
  readonly #directory: string;
  readonly #rescanMs: number;
  #watcher: FSWatcher | undefined;
  /** Inode of the directory that `#watcher` watches. */
  #inode: bigint | undefined;
  #names = new Set<string>();
  readonly #wakeup = new Wakeup(systemClock);

  constructor(directory: string, rescanMs: number) {
    this.#directory = directory;
    this.#rescanMs = rescanMs;
  }

  /**
   * Watches the directory with this inode; the path may lead to a different one than before. Throws
   * the errors of fs.watch: then there are only the rescans.
   */
  follow(inode: bigint): void {
    if (inode === this.#inode) return;
    this.close();
    this.#watcher = watch(this.#directory, (_event, name) => {
      this.#names.add(name ?? '');
      this.#wakeup.wake();
    });
    this.#inode = inode;
    // When the watcher fails later (its directory is gone), rescans find the new directory.
    this.#watcher.on('error', () => this.close());
  }

  /**
   * Waits for a change, at most `rescanMs` or the given time. Resolves to the names in events; to
   * none after that time, or when `signal` aborts.
   */
  async next(signal: AbortSignal, patienceMs = this.#rescanMs): Promise<ReadonlySet<string>> {
    const wake = (): void => this.#wakeup.wake();
    signal.addEventListener('abort', wake, { once: true });
    if (this.#names.size > 0 || (await this.#wakeup.wait(patienceMs))) {
      const deadlineMs = performance.now() + unquietMaxMs;
      while (performance.now() < deadlineMs && (await this.#wakeup.wait(quietMs))) {}
    }
    signal.removeEventListener('abort', wake);
    const names = this.#names;
    this.#names = new Set();
    return names;
  }

  close(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    this.#inode = undefined;
  }
}
