/** Loads the C++ addon. */
import { existsSync } from 'node:fs';
import { createRequire, findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';

export interface SocketOptions {
  /** Path of the network namespace to work in, e.g. `/run/netns/a`; without it, the process's. */
  readonly netns?: string;
  /** Size of the netlink receive buffer; without it, enough for some thousand errors. */
  readonly receiveBufferBytes?: number;
  /** Path of the lock that programs of iptables-legacy share; without it, `/run/xtables.lock`. */
  readonly xtablesLock?: string;
}

/**
 * A thread of its own with netlink sockets, in one network namespace. Buffers run one after the
 * other, in the order of their submission.
 */
export interface Socket {
  /**
   * Runs a buffer of records: ops, or exactly one request. Resolves with records of `replies`.
   * Rejects with an Error that has `errno` and `syscall` when nothing could be sent. The buffer
   * must not be changed, detached or shrunk until the promise has settled.
   */
  submit(buffer: Uint8Array): Promise<Uint8Array>;
  /** What was submitted is still done; further submissions are rejected. */
  close(): void;
}

/** A thread of its own that writes lines to a file descriptor, in order. */
export interface LineWriter {
  /** Takes a line with its newline. Never waits. */
  push(line: string): void;
  /** Bytes of lines that are not written yet. */
  pendingBytes(): number;
  /** Blocks until nothing is pending, for at most `longestMs`. Returns whether nothing is. */
  drain(longestMs: number): boolean;
}

/** The process that listens on an abstract Unix socket, as the kernel tells it. */
export interface Listener {
  /** In our PID namespace; 0 = it is in none that we see. */
  readonly pid: number;
  /** Effective, in our user namespace. */
  readonly uid: number;
  /**
   * Whether the process that made it by `openListener` had CAP_NET_ADMIN. Absent: this process
   * can't tell, because it does not have it itself, or the kernel does not show sockets.
   */
  readonly administersNet?: boolean;
}

interface WatchOptions {
  /** As in `SocketOptions`. */
  readonly netns?: string;
  /** NFPROTO_* and name of each table that matters. */
  readonly tables: readonly { readonly family: number; readonly table: string }[];
}

/**
 * A thread of its own that waits for changes of nf_tables. It does not keep the process alive. It
 * ends when a system call fails.
 */
export interface Watch {
  /** From now on changes from this netlink port are not told. */
  ignore(port: number): void;
  /** Stops watching. A change that was found before may still be told. */
  close(): void;
}

/**
 * Measures how long the turns of this thread's event loop take, without the time in which the loop
 * waits: what happens may have to wait as long. It has no timer, so it wakes nothing.
 */
export interface TurnMeter {
  /**
   * Milliseconds since the last call; all are 0 without a turn. Percentiles are at most 19 % above
   * the true value.
   */
  take(): { readonly p50: number; readonly p99: number; readonly longest: number };
  close(): void;
}

export interface Addon {
  /**
   * `name` is without the byte 0 that begins it. Undefined when nobody listens in this network
   * namespace. Throws an Error when the kernel does not say, or so many wait to be accepted that it
   * can't.
   */
  readonly findListener: (name: string) => Listener | undefined;
  /**
   * Listens on an abstract Unix socket and returns its descriptor, for `net.Server`. If this
   * process has CAP_NET_ADMIN, the socket proves it. Throws an Error with `errno` and `syscall`.
   */
  readonly openListener: (name: string) => number;
  readonly LineWriter: new (fd: number) => LineWriter;
  /**
   * Takes pages of program files out of this process's page tables; a fault brings back each that is
   * used again. Returns how many bytes were resident there. Throws an Error with `errno` and
   * `syscall` when /proc/self/smaps cannot be read.
   */
  readonly releaseFilePages: () => number;
  readonly Socket: new (options?: SocketOptions) => Socket;
  readonly TurnMeter: new () => TurnMeter;
  /**
   * `told` gets who committed the last change: name and PID of a thread, or '' and 0. It is first
   * called when the watch has begun. If the watch has ended without `close`, the last call has an
   * Error with `errno` and `syscall`. Throws such an Error when no thread can be made.
   */
  readonly Watch: new (
    options: WatchOptions,
    told: (error: Error | undefined, program: string, pid: number) => void,
  ) => Watch;
}

/** Beside the package.json above this module, which stands deeper in src than in dist. */
const packageRoot = dirname(findPackageJSON(import.meta.url)!);
const addonPath = join(packageRoot, 'build/Release/fairlead.node');

/** Throws when the addon has not been built, or cannot be loaded by this Node. */
export function loadAddon(path: string = addonPath): Addon {
  if (!existsSync(path)) {
    throw new Error(`the addon is not built: ${path} is missing; run \`npm run build\``);
  }
  return createRequire(import.meta.url)(path) as Addon;
}
