/** Events of the sync loop, from which logs, metrics and health are made. */
import type { KernelError } from '../kernel/errors.ts';
import type { Committer, KernelFailure, TableName } from '../kernel/kernel.ts';
import type { Drift, Miscount, RefusedAddress, RuleCount } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import type { ServicePortName } from '../state/types.ts';
import type { Notice } from './notices.ts';
import type { Quarantined } from './quarantine.ts';
import type { Writers } from './ruleset.ts';

/**
 * Why a batch is written: `start` takes over what an earlier process left, `changes` is the normal
 * sync, `recovery` follows a failure whose extent is unknown, `audit` repairs drift, `deferred`
 * deletes what an earlier batch made unused, `sweep` what packets wrote (session affinity).
 */
export type Purpose = 'start' | 'changes' | 'recovery' | 'audit' | 'deferred' | 'sweep';

/** When the oldest change of a batch passed each stage; milliseconds of `Clock.now`. */
interface StageTimes {
  readonly receivedMs: number;
  readonly resolvedMs: number;
  readonly encodedMs: number;
  readonly committedMs: number;
}

export type FamilyEvent = { readonly family: Family } & (
  | {
      /** A sync was asked for; `done` will answer, or health turns bad. */
      readonly kind: 'queued';
    }
  | {
      /** The kernel took a batch. */
      readonly kind: 'committed';
      readonly purpose: Purpose;
      readonly forwardings: number;
      readonly writes: number;
      readonly bytes: number;
      readonly applyMs: number;
      /** Undefined when no change from outside is in the batch (audit, deferred). */
      readonly stages: StageTimes | undefined;
      /** Trigger times of the changes, milliseconds since the epoch. */
      readonly triggerTimesMs: readonly number[];
    }
  | {
      /**
       * A sync is over; with `ok`, all that was desired at its start is in force or in quarantine.
       */
      readonly kind: 'done';
      readonly purpose: Purpose;
      readonly ok: boolean;
      /**
       * Only what is in quarantine waits, and that is not everything: other Services are served.
       */
      readonly healthy: boolean;
      readonly durationMs: number;
      /** The time of this process and of the kernel for it. */
      readonly workMs: number;
      /** By table, in a mode that counts them. */
      readonly rules?: readonly RuleCount[];
    }
  | {
      readonly kind: 'failed';
      readonly purpose: Purpose;
      readonly failures: readonly KernelFailure[];
      /** Until the kernel is read and repaired; undefined = culprits are put in quarantine. */
      readonly retryMs: number | undefined;
      /** Another program has changed what the batch was about since the kernel was read. */
      readonly isMoved?: boolean;
    }
  | { readonly kind: 'quarantined'; readonly quarantined: Quarantined; readonly retryMs: number }
  | { readonly kind: 'restored'; readonly servicePort: ServicePortName; readonly attempts: number }
  | {
      /** The kernel differed from what is in force; in a `start`, from what is desired. */
      readonly kind: 'drift';
      readonly purpose: Purpose;
      readonly drift: Drift;
      /** Whether others have written since the last comparison. If not, it was our own mistake. */
      readonly writers: Writers;
      /** The last committer that the kernel reported; undefined = not known. */
      readonly by?: Committer | undefined;
    }
  | {
      /** A recovery has done what a refused batch was meant to do; no other program has written. */
      readonly kind: 'completed';
      readonly drift: Drift;
    }
  | {
      /** The kernel counts other numbers of elements than there should be: an audit follows. */
      readonly kind: 'miscounted';
      readonly miscounts: readonly Miscount[];
    }
  | {
      /** Other programs can change these tables of ours, and the kernel reports it when they do. */
      readonly kind: 'exposed';
      readonly tables: readonly TableName[];
    }
  | {
      /** The watch of these tables could not begin, or has ended: an audit follows. */
      readonly kind: 'unwatched';
      readonly tables: readonly TableName[];
      readonly error: KernelError;
      /** Until the next attempt. */
      readonly retryMs: number;
    }
  | ({
      /** A Service asks for an address that is this machine's own, and does not get it. */
      readonly kind: 'address-refused';
    } & RefusedAddress)
  | { readonly kind: 'audited'; readonly durationMs: number }
);

/** Of the sync that keeps rules in a table of iptables in addition to those of the mode. */
export type FilterEvent = {
  readonly kind: 'filter-rules';
  readonly family: Family;
  readonly of: FamilyEvent;
};

export type SyncEvent = FamilyEvent | Notice;

export type Observer = (event: SyncEvent) => void;

export const noDrift: Drift = { missing: 0, wrong: 0, unwanted: 0 };

export function addDrift(a: Drift, b: Drift): Drift {
  return {
    missing: a.missing + b.missing,
    wrong: a.wrong + b.wrong,
    unwanted: a.unwanted + b.unwanted,
  };
}

export function isDrift(drift: Drift): boolean {
  return drift.missing + drift.wrong + drift.unwanted > 0;
}
