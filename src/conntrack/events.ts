/** What the reconciler tells the world: values that logs and metrics are made from. */
import type { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import type { Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';

export type ConntrackEvent = { readonly family: Family; readonly protocol: Protocol } & (
  | {
      /** Entries were looked at, and those that contradicted deleted. */
      readonly kind: 'reconciled';
      readonly durationMs: number;
      /** Entries that the kernel told of. */
      readonly examined: number;
      /** Entries that contradicted and are gone. */
      readonly deleted: ConntrackEntries;
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
