/** The interface to the kernel. The fake for tests implements it too. */
import type { KernelError } from './errors.ts';
import type { Reply, Request } from './ops.ts';

/** One error that the kernel gave for a buffer of ops. */
export interface KernelFailure {
  /** Index of the op in the buffer; undefined where the kernel did not say (e.g. ENOMEM). */
  readonly op: number | undefined;
  /** Index of the entry within an op that has several; undefined where not known. */
  readonly entry: number | undefined;
  /** Symbolic errno, e.g. `ENOENT`. */
  readonly code: string;
  /** The kernel's own words (extended acknowledgement), or those of strerror(3). */
  readonly message: string;
  /** Another attempt will fail too, unless something else is desired. */
  readonly isLasting?: boolean;
  /**
   * It is the failure of one socket: its code does not mean that this process lacks permission, nor
   * that the kernel holds something else than we think.
   */
  readonly isOfSocket?: boolean;
  /** The kernel's answer was lost: all may be in force, and nothing is to blame. */
  readonly isLost?: boolean;
  /**
   * Another process owns what should be changed. When it has ended, another attempt may succeed.
   */
  readonly isHeld?: boolean;
}

/** A table of nf_tables: its family, NFPROTO_*, and its name. */
export interface TableName {
  readonly family: number;
  readonly table: string;
}

/** A table that is watched. */
export interface WatchedTable extends TableName {
  /** What the names of chains begin with that count, with their rules. Default: all chains do. */
  readonly chains?: readonly string[];
}

/** A rule that was deleted. */
export interface GoneRule {
  /** What its counter had seen. */
  readonly packets: number;
  /** Records of `expressions`. */
  readonly expressions: Uint8Array;
}

/** The outcome of a buffer of ops: applied whole, or failed with at least one reason. */
export type ApplyResult =
  | {
      readonly kind: 'applied';
      /** Handles of rules by the index of their op, for the ops that ask (`echo`), if any does. */
      readonly handles?: ReadonlyMap<number, number>;
      /** Deleted rules likewise. */
      readonly gone?: ReadonlyMap<number, GoneRule>;
    }
  | {
      readonly kind: 'failed';
      readonly failures: readonly KernelFailure[];
      /**
       * True when other ops of the buffer were applied: read the kernel before the next change.
       * Never for a buffer of nft ops alone, which are one transaction. A failure without an op
       * (the answer was lost) leaves open what was applied.
       */
      readonly partly: boolean;
    };

/** Who committed a transaction, in the kernel's words. */
export interface Committer {
  /** Name of the thread, which is that of the program unless that has named it. */
  readonly program: string;
  /** In the initial PID namespace. */
  readonly pid: number;
}

/** A reply of this kind. */
export type ReplyOf<Kind extends Reply['kind']> = Extract<Reply, { kind: Kind }>;

export interface DumpResult {
  readonly records: readonly Reply[];
  /**
   * False when what was read may not be one consistent state: the ruleset changed during the dump,
   * the kernel was resizing a set (some tenths of a second after many elements were added), or
   * replies were lost. Read again before acting on it.
   */
  readonly consistent: boolean;
}

/** What a watch of tables calls. */
export interface TableWatcher {
  readonly changed: (by?: Committer) => void;
  readonly ended: (error: KernelError) => void;
}

/** What can read the kernel, and cannot change it. */
export type KernelReader = Pick<Kernel, 'commits' | 'dump' | 'generation'>;

export interface Kernel {
  /**
   * Applies a buffer of ops (records of `kernelOps`) in its order. Consecutive ops of one schema
   * are a run. A run of `nftOps` is one transaction. Of other runs each op is tried, even if one
   * before it fails. The first run with a failure ends the buffer. Rejects with KernelError only
   * when nothing could be sent at all; the kernel's refusals are results. `ops` must not be written
   * to until the promise has settled.
   */
  apply(ops: Uint8Array): Promise<ApplyResult>;
  /**
   * Reads. Resolves to no records when the object does not exist (ENOENT, ENODEV). Rejects with
   * KernelError for other errors, such as EPROTONOSUPPORT where there is no IPVS.
   *
   * With `take`, the result has no records. Instead `take` is called with each record, in several
   * turns of the event loop, and only if the records are consistent. So the caller need not store
   * hundreds of thousands of records.
   */
  dump(request: Request, take?: (record: Reply) => void): Promise<DumpResult>;
  /**
   * The generation of the ruleset of this network namespace: +1 for each commit by anyone. It is
   * read in turn with transactions, so that `commits` has those that it has.
   */
  generation(): Promise<number>;
  /** How many transactions of nf_tables `apply` has committed, as far as it knows. */
  readonly commits: number;
  /**
   * Whether a table's owner, given as netlink port, is the socket of our transactions. When that
   * socket is closed, as after an error, the tables that it owned have no owner.
   */
  isOwn(port: number): boolean;
  /**
   * Watches these tables and their content. Calls `changed` some milliseconds after another program
   * may have changed them; compare generations to know. Changes that follow each other fast are
   * reported together. `changed` is first called when the watch has begun, because changes before
   * that may be missed. If the kernel refuses or ends the watch, `ended` is called once and the
   * watch is over. Neither function is called before `watch` returns.
   *
   * @returns a function that ends the watch.
   */
  watch(tables: readonly WatchedTable[], watcher: TableWatcher): () => void;
  /**
   * Watches all network links as `watch` does tables: calls `changed` when some came, went or
   * changed. Absent: none can be watched.
   */
  watchLinks?(watcher: TableWatcher): () => void;
  close(): void;
}
