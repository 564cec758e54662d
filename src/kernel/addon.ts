/** Loads the C++ addon. */
import { existsSync } from 'node:fs';
import { createRequire, findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import { conntrackReplies, conntrackRequests } from './conntrack-ops.ts';
import { ElementShape, expressions, kernelOps, kernelReplies, kernelRequests } from './ops.ts';

export interface SocketOptions {
  /** Path of the network namespace to work in, e.g. `/run/netns/a`; without it, the process's. */
  readonly netns?: string;
  /** Size of the netlink receive buffer; without it, enough for some thousand errors. */
  readonly receiveBufferBytes?: number;
  /** Path of the lock that programs of iptables-legacy share; without it, `/run/xtables.lock`. */
  readonly xtablesLock?: string;
}

/**
 * A separate thread with netlink sockets in one network namespace. Runs buffers one after the
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

/** A separate thread that writes lines to a file descriptor, in order. */
export interface LineWriter {
  /** Takes a line with its newline. Never waits. */
  push(line: string): void;
  /** Bytes of lines that are not written yet. */
  pendingBytes(): number;
  /** Blocks until nothing is pending, for at most `longestMs`. Returns whether nothing is. */
  drain(longestMs: number): boolean;
}

/** The process that listens on an abstract Unix socket, as the kernel reports it. */
export interface Listener {
  /** In our PID namespace; 0 = it is in none that we see. */
  readonly pid: number;
  /** Effective, in our user namespace. */
  readonly uid: number;
  /**
   * Whether the process that made it by `openListener` had CAP_NET_ADMIN. Absent: this process
   * cannot know, because it does not have it itself, or the kernel does not show sockets.
   */
  readonly administersNet?: boolean;
}

interface WatchOptions {
  /** As in `SocketOptions`. */
  readonly netns?: string;
  /** Each table that matters (see `WatchedTable`); absent: all network links matter instead. */
  readonly tables?: readonly {
    readonly family: number;
    readonly table: string;
    readonly chains?: readonly string[];
  }[];
}

/**
 * A separate thread that waits for changes of nf_tables, or of links. It does not keep the process
 * alive. It ends when a system call fails.
 */
export interface Watch {
  /** Stops reporting changes from this netlink port. */
  ignore(port: number): void;
  /** Stops watching. A change that was found earlier may still be reported. */
  close(): void;
}

/**
 * Measures how long the turns of this thread's event loop take, without the time in which the loop
 * is idle. An event may have to wait that long. It needs no timer and causes no wake-ups.
 */
export interface TurnMeter {
  /**
   * Milliseconds since the last call; all are 0 without a turn. Percentiles are at most 19 % above
   * the true value.
   */
  take(): { readonly p50: number; readonly p99: number; readonly longest: number };
  close(): void;
}

/** Does not keep the process alive. */
export interface AddressWatch {
  close(): void;
}

export interface Addon {
  /**
   * Calls `onChange` when an address of this machine may have come or gone, on this thread, from
   * the moment when it is made. If it ends without `close`, the last call has an Error with `errno`
   * and `syscall`; the constructor throws such an error.
   */
  readonly AddressWatch: new (
    onChange: (error: Error | undefined) => void,
  ) => AddressWatch;
  /**
   * All TCP sockets of this network namespace that listen, and all UDP sockets without a peer:
   * entries of 24 bytes, as native/local/bound_ports.h has them. Throws an Error with `errno` and
   * `syscall` where the kernel does not show sockets.
   */
  readonly boundPorts: () => Uint8Array;
  /**
   * Memory that the kernel holds for a TCP socket at this moment, in bytes: what was not read, what
   * was not sent or acknowledged, and what it keeps ready for more. 0 = there is no such socket.
   */
  readonly bufferedBytes: (fd: number) => number;
  /**
   * Finds the process that listens on an abstract Unix socket. `name` excludes the leading byte 0.
   *
   * @returns undefined if no process listens in this network namespace.
   * @throws Error if the kernel does not answer, or the listener's backlog is full.
   */
  readonly findListener: (name: string) => Listener | undefined;
  /**
   * Limits each of the two buffers of a connected TCP socket to about `bytes` of payload, for which
   * the kernel takes up to twice as much memory. A socket that has failed stays as it is.
   */
  readonly limitBuffers: (fd: number, bytes: number) => void;
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
  /** The `schemaSum` of the program that it was built for. */
  readonly schemaSum: number;
  readonly Socket: new (options?: SocketOptions) => Socket;
  /**
   * Starts a collection of this thread's heap that other threads do for the most part, and returns.
   * Where the heap may have 160 MB or less, it returns after the collection.
   */
  readonly startCollection: () => void;
  /** Gives the system all pages that malloc has free: by itself it gives only those at the end. */
  readonly trimMalloc: () => void;
  readonly TurnMeter: new () => TurnMeter;
  /**
   * Passes `onChange` the name and PID of the thread that committed the last change, or '' and 0.
   * The first call means that the watch has begun. If the watch ends without `close`, the last call
   * has an Error with `errno` and `syscall`.
   *
   * @throws such an Error if the thread cannot be created.
   */
  readonly Watch: new (
    options: WatchOptions,
    onChange: (error: Error | undefined, program: string, pid: number) => void,
  ) => Watch;
}

/** The folder of the package.json above this module, whose depth differs between src and dist. */
const packageRoot = dirname(findPackageJSON(import.meta.url)!);
const addonPath = join(packageRoot, 'build/Release/fairlead.node');

/** Throws when the addon has not been built for this program, or cannot be loaded by this Node. */
export function loadAddon(path: string = addonPath): Addon {
  if (!existsSync(path)) {
    throw new Error(`the addon is not built: ${path} is missing; run \`npm run build\``);
  }
  const addon = createRequire(import.meta.url)(path) as Addon;
  if (addon.schemaSum !== schemaSum) {
    throw new Error(
      `the addon ${path} is of another version than this program; run \`npm run build\``,
    );
  }
  return addon;
}

/** What the program and the addon must agree about: the layout of the records between them. */
const schemas = [
  ElementShape,
  kernelOps,
  [kernelRequests, conntrackRequests],
  [kernelReplies, conntrackReplies],
  expressions,
];

/** A checksum of all schemas. `scripts/generate.ts` writes it into the addon. */
export const schemaSum: number = crc32(JSON.stringify(schemas));
