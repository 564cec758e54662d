/** The edge to the kernel, as everything above sees it. The fake for tests implements the same. */
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
  /** To try again is in vain, unless something else is wanted. */
  readonly isLasting?: boolean;
  /**
   * It is about one socket: no code of it says what this process may do to the kernel, nor that the
   * kernel holds something else than we believe.
   */
  readonly isOfSocket?: boolean;
  /** Another process holds what is to be changed: it will be ours soon after that has ended. */
  readonly isHeld?: boolean;
}

/** A table of nf_tables: its family, NFPROTO_*, and its name. */
export interface TableName {
  readonly family: number;
  readonly table: string;
}

/** The outcome of a buffer of ops: applied whole, or failed with at least one reason. */
export type ApplyResult =
  | {
      readonly kind: 'applied';
      /** Handles of rules by the index of their op, for the ops that ask (`echo`), if any does. */
      readonly handles?: ReadonlyMap<number, number>;
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

export interface DumpResult {
  readonly records: readonly Reply[];
  /**
   * False when what was read may not be one consistent state: the ruleset changed during the dump,
   * the kernel was resizing a set (some tenths of a second after many elements were added), or
   * replies were lost. Read again before acting on it.
   */
  readonly consistent: boolean;
}

export interface Kernel {
  /**
   * Applies a buffer of ops (records of `kernelOps`) in its order. Consecutive ops of one schema are
   * a run: `nftOps` are one transaction, of `ipvsOps` and `routeOps` each op is tried, whatever
   * becomes of those before. The first run with a failure is the last that is done. Rejects with
   * KernelError only when nothing could be sent at all; the kernel's refusals are results.
   * `ops` must not be written to until the promise has settled.
   */
  apply(ops: Uint8Array): Promise<ApplyResult>;
  /**
   * Reads. What is asked for is not there (ENOENT, ENODEV): no records. Other errors reject with
   * KernelError, such as EPROTONOSUPPORT where there is no IPVS.
   */
  dump(request: Request): Promise<DumpResult>;
  /** The generation of the ruleset of this network namespace: +1 for each commit by anyone. */
  generation(): Promise<number>;
  /**
   * Whether our transactions come from this netlink port, that of a table's owner. What we owned is
   * nobody's once the socket behind it is closed, as after an error that left it unusable.
   */
  isOwn(port: number): boolean;
  /**
   * Calls `changed` some milliseconds after others have changed one of these tables or what is in
   * it, or may have: the generation tells for certain. Changes that follow each other fast are told
   * as one; what came before the first call may be missing, which therefore comes in any case.
   * Returns how to end it. Where the kernel tells nobody, `changed` is never called.
   */
  watch(tables: readonly TableName[], changed: (by?: Committer) => void): () => void;
  close(): void;
}
