/** Events of the reconciler, from which logs and metrics are made. */
import type { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import type { Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';

export type ConntrackEvent = { readonly family: Family; readonly protocol: Protocol } & (
  | {
      /** Entries were examined, and those deleted that contradict what is in force. */
      readonly kind: 'reconciled';
      readonly durationMs: number;
      /** The number of entries in the kernel's answer. */
      readonly examined: number;
      /** Entries that contradicted and were deleted. */
      readonly deleted: ConntrackEntries;
      /** They were of connections that were too old. */
      readonly isForAge?: boolean;
    }
  | {
      /** The kernel refused something. */
      readonly kind: 'failed';
      readonly error: Error;
      /** Milliseconds until the next attempt; undefined = given up until the next change. */
      readonly retryMs: number | undefined;
    }
);

export type ConntrackObserver = (event: ConntrackEvent) => void;
